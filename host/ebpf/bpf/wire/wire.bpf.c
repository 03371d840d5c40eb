/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Diverts the frames of an interface through a wire: out by a tap, read by the wire's process, and
 * from that tap back to the place they were taken from, marked so that they are not taken again.
 * Frames stay whole, with unfinished checksums and tags, as the tap takes them.
 *
 * At ingress the kernel has already decided which station a frame is for, and forgets it on the way
 * through the tap: redirecting into an interface makes every frame one for this host. So the MAC of frames
 * for this host is recorded on the way out, and the decision is made again from it on the way back.
 *
 * A missing tap loses its frames: a link whose wire died stands still.
 */
#include <linux/if_packet.h>
#include <netloom/kernel.h>
#include <netloom/wire.h>

#define MAC_BYTES 6
#define BROADCAST 0xffffffffffffULL

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* One map for all programs, so that it can be found through any of them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, struct nl_wire_place);
	__type(value, struct nl_wire_way);
} nl_wire_ways SEC(".maps");

/* A frame's destination MAC, first byte lowest, or 0 if the frame is too short for one. */
static __always_inline __u64 destination(struct __sk_buff *skb)
{
	const __u8 *data = (void *)(long)skb->data;
	const __u8 *end = (void *)(long)skb->data_end;
	__u64 mac = 0;

	if (data + MAC_BYTES > end)
		return 0;
#pragma unroll
	for (int i = 0; i < MAC_BYTES; i++)
		mac |= (__u64)data[i] << (8 * i);
	return mac;
}

static __always_inline void say_whom_for(struct __sk_buff *skb, const struct nl_wire_way *way)
{
	__u64 own = NL_READ(way->own);
	__u64 mac = destination(skb);

	if (mac == BROADCAST)
		bpf_skb_change_type(skb, PACKET_BROADCAST);
	else if (mac & 1)
		bpf_skb_change_type(skb, PACKET_MULTICAST);
	else if (own && mac != own)
		bpf_skb_change_type(skb, PACKET_OTHERHOST);
}

static __always_inline int at(struct __sk_buff *skb, __u32 direction)
{
	struct nl_wire_place place = { .ifindex = skb->ifindex, .at = direction };
	struct nl_wire_way *way = bpf_map_lookup_elem(&nl_wire_ways, &place);
	__u32 tap;

	if (skb->mark == NL_WIRE_MARK) {
		skb->mark = 0;
		if (way && direction == NL_INGRESS)
			say_whom_for(skb, way);
		return NL_NEXT;
	}
	if (!way)
		return NL_NEXT;
	tap = NL_READ(way->to);
	if (!tap)
		return NL_NEXT;
	if (direction == NL_INGRESS && skb->pkt_type == PACKET_HOST) {
		__u64 mac = destination(skb);

		/* Written only if it differs: all CPUs read this line. */
		if (mac && !(mac & 1) && mac != NL_READ(way->own))
			way->own = mac;
	}
	return bpf_redirect(tap, 0);
}

SEC("tc")
int nl_wire_in(struct __sk_buff *skb)
{
	return at(skb, NL_INGRESS);
}

SEC("tc")
int nl_wire_eg(struct __sk_buff *skb)
{
	return at(skb, NL_EGRESS);
}

/* At the tap, for frames that the wire's process writes to it. */
SEC("tc")
int nl_wire_tap(struct __sk_buff *skb)
{
	struct nl_wire_place place = { .ifindex = skb->ifindex, .at = NL_WIRE_TAP };
	struct nl_wire_way *way = bpf_map_lookup_elem(&nl_wire_ways, &place);

	/* Were it let through, the host's stack would receive the frame from the tap. */
	if (!way || !way->to)
		return NL_DROP;
	skb->mark = NL_WIRE_MARK;
	return bpf_redirect(way->to, way->at == NL_INGRESS ? BPF_F_INGRESS : 0);
}
