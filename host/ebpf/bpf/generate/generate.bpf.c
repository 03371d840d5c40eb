/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Generates frames. The kernel runs nl_gen_v4 or nl_gen_v6 on its own pages (BPF_PROG_TEST_RUN with
 * BPF_F_TEST_XDP_LIVE_FRAMES) and gives pages with verdict XDP_TX to the interface, as if
 * redirected there. Pages come back as the last receiver left them, so every frame is rewritten
 * up to the stamp.
 *
 * The kernel's trace point, which nl_gen_sent listens to, reports once a bulk what the interface
 * accepted. Only one thread runs a set of these programs: counters need no atomics.
 */
#include <linux/if_ether.h>
#include <netloom/kernel.h>
#include <netloom/generate.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#define UDP_BYTES 8
#define V4_NETWORK ETH_HLEN
#define V4_UDP (ETH_HLEN + 20)
#define V6_UDP (ETH_HLEN + 40)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_gen_what);
} nl_gen_what SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_gen_run);
} nl_gen_run SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_gen_took);
} nl_gen_took SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} nl_gen_lengths SEC(".maps");

static __always_inline __u16 folded(__u32 sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return ~sum;
}

/* The sum of the four 16-bit parts of a 64-bit word. */
static __always_inline __u32 parts(__u64 word)
{
	return (word >> 48) + ((word >> 32) & 0xffff) + ((word >> 16) & 0xffff) + (word & 0xffff);
}

/* The time in the stamp. */
static __always_inline __u64 time_of(struct nl_gen_run *run, const struct nl_gen_what *what)
{
	if (!run->clock_left) {
		run->time = bpf_ktime_get_ns() + run->clock_offset;
		run->clock_left = what->clock_every ? what->clock_every : ~0ULL;
	}
	run->clock_left--;
	return run->time;
}

/* Sets and returns the length of this frame; 0 if something is wrong. */
static __always_inline __u32 cut(struct xdp_md *ctx, struct nl_gen_run *run,
				 const struct nl_gen_what *what)
{
	__u32 length = what->longest;
	__u32 at = run->length;
	__u64 *entry;

	if (what->lengths == 1)
		return length;
	entry = bpf_map_lookup_elem(&nl_gen_lengths, &at);
	if (!entry || *entry > length)
		return 0;
	/* The page has its full length again in each turn: the kernel undoes moved tails. */
	if (*entry != length && bpf_xdp_adjust_tail(ctx, (int)*entry - (int)length))
		return 0;
	run->length = at + 1 == what->lengths ? 0 : at + 1;
	return *entry;
}

static __always_inline void put16(__u8 *data, int at, __u16 value)
{
	*(__u16 *)(data + at) = bpf_htons(value);
}

static __always_inline void put32(__u8 *data, int at, __u32 value)
{
	*(__u32 *)(data + at) = bpf_htonl(value);
}

static __always_inline int make(struct xdp_md *ctx, const bool v6)
{
	const int words = (v6 ? NL_GEN_V6_HEAD : NL_GEN_V4_HEAD) / 4;
	const int udp = v6 ? V6_UDP : V4_UDP;
	__u32 zero = 0, length, source, sum;
	__u64 sequence, time;
	struct nl_gen_what *what = bpf_map_lookup_elem(&nl_gen_what, &zero);
	struct nl_gen_run *run = bpf_map_lookup_elem(&nl_gen_run, &zero);
	__u16 port;
	__u8 *data;

	/* The kernel makes whole batches, even if fewer frames are left. */
	if (!what || !run || !run->left)
		return XDP_DROP;
	length = cut(ctx, run, what);
	data = (void *)(long)ctx->data;
	if (!length || data + words * 4 > (__u8 *)(long)ctx->data_end)
		return XDP_DROP;
#pragma unroll
	for (int i = 0; i < words / 2; i++)
		((__u64 *)data)[i] = ((__u64 *)what->head)[i];
	if (words & 1)
		((__u32 *)data)[words - 1] = ((__u32 *)what->head)[words - 1];

	port = NL_GEN_FIRST_PORT + (run->flow & ((1 << NL_GEN_PORT_BITS) - 1));
	source = what->source + (run->flow >> NL_GEN_PORT_BITS);
	sequence = run->next;
	time = time_of(run, what);
	put16(data, udp, port);
	put16(data, udp + 4, length - udp);
	put16(data, udp + UDP_BYTES + 4, sequence >> 32);
	put32(data, udp + UDP_BYTES + 6, sequence);
	put32(data, udp + UDP_BYTES + 10, time >> 32);
	put32(data, udp + UDP_BYTES + 14, time);
	sum = what->constant + (source >> 16) + (source & 0xffff);
	if (v6) {
		put16(data, ETH_HLEN + 4, length - V6_UDP);
		put32(data, ETH_HLEN + 20, source);
		/* The length is in the UDP header and in the pseudo-header's sum. */
		sum += port + 2 * (length - V6_UDP) + parts(sequence & 0xffffffffffffULL) + parts(time);
		/* 0 means "no checksum", which IPv6 does not allow (RFC 8200, 8.1). */
		port = folded(sum);
		put16(data, udp + 6, port ? port : 0xffff);
	} else {
		put16(data, V4_NETWORK + 2, length - ETH_HLEN);
		put32(data, V4_NETWORK + 12, source);
		put16(data, V4_NETWORK + 10, folded(sum + length - ETH_HLEN));
	}
	run->flow = run->flow + 1 >= what->flows ? 0 : run->flow + 1;
	run->next = sequence + 1;
	run->bytes += length;
	run->left--;
	return XDP_TX;
}

SEC("xdp")
int nl_gen_v4(struct xdp_md *ctx)
{
	return make(ctx, false);
}

SEC("xdp")
int nl_gen_v6(struct xdp_md *ctx)
{
	return make(ctx, true);
}

/* Lets everything through. A veth pair with a program accepts frames that are not packets yet. */
SEC("xdp.frags")
int nl_gen_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

/* Runs after each bulk of frames given to an interface. */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(nl_gen_sent, const struct net_device *from, const struct net_device *to, int sent,
	     int drops, int err)
{
	__u32 zero = 0;
	struct nl_gen_took *took = bpf_map_lookup_elem(&nl_gen_took, &zero);
	struct bpf_pidns_info who = {};

	/* Our frames come from the interface that they go to, and are sent by our thread. */
	if (!took || from->ifindex != to->ifindex || (__u64)to->ifindex != took->ifindex)
		return 0;
	if (bpf_get_ns_current_pid_tgid(took->pidns_dev, took->pidns_inode, &who, sizeof(who)))
		return 0;
	if (((__u64)who.tgid << 32 | who.pid) != took->thread)
		return 0;
	took->taken += sent;
	took->refused += drops;
	return 0;
}
