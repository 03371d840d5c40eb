/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The fast path of a switch: at the ports' receiving side, frames for which the pipeline's result is known are treated
 * as it says, and all others are given to the pipeline: through a ring, or by a tap beside the port. Nothing is decided
 * here.
 *
 * A run of the program says when it begins and ends (`entered`, `left`), with a full barrier after it began. So
 * user space, which changed a result and then finds that every run that began before has ended, knows that nothing
 * is treated by the old one any more, and that its counters are final: after microseconds, not the milliseconds
 * of a grace period of the kernel.
 */
#include <netloom/kernel.h>
#include <netloom/flow.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct nl_fl_options nl_fl_options SEC(".rodata.options") = {};

#include "frame.bpf.h"
#include "work.bpf.h"
#include "plain.bpf.h"
#include "find.bpf.h"
#include "act.bpf.h"
#include "up.bpf.h"

/* By the index of an interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_port);
} nl_fl_ports SEC(".maps");

/* Numbers of ports, in the upper half, by the last bits of the index of their interface, which is in the lower half; 0:
 * the port is only in nl_fl_ports. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NL_FL_NEAR);
	__type(key, __u32);
	__type(value, __u64);
} nl_fl_near SEC(".maps");

CHUNKED(nl_fl_counts, nl_fl_count, NL_FL_CHUNKS);

/* How many packets a super-frame stands for, and their bytes as they would arrive one by one. */
static __always_inline __u32 packets_of(CONTEXT *ctx, const struct nl_fl_work *w, __u64 *bytes)
{
	__u32 size = frame_segment(ctx), headers = w->transport, packets;

	*bytes = w->total;
	if (!size)
		return 1;
	if (w->protocol == TCP && w->sum)
		headers += (*head_at(w, w->transport + 12) >> 4) * 4;
	else if (w->protocol == UDP && w->sum)
		headers += 8;
	else
		headers = 0;
	if (!headers || headers >= w->total)
		/* The kernel's own count, which a sender of raw super-frames may leave at 0. */
		return frame_segments(ctx) ? frame_segments(ctx) : 1;
	packets = (w->total - headers + size - 1) / size;
	*bytes += (__u64)(packets - 1) * headers;
	return packets;
}

static __always_inline void count(CONTEXT *ctx, const struct nl_fl_work *w, __u32 number, __u32 slot)
{
	__u32 place = number * NL_FL_CHUNK + slot % NL_FL_CHUNK;
	struct nl_fl_count *c;
	__u64 bytes;

	if (slot < NL_FL_CHUNK) {
		c = bpf_map_lookup_elem(&nl_fl_counts, &place);
		NL_APART();
	} else {
		c = in_chunk(&nl_fl_counts_x, slot / NL_FL_CHUNK, place);
	}
	if (!c)
		return;
	c->packets += packets_of(ctx, w, &bytes);
	c->bytes += bytes;
	/* At most a tick old, while idle timeouts are in seconds; an exact reading costs far
	 * more. */
	c->used = bpf_ktime_get_coarse_ns();
}

/* Whether the checksum over a header of IPv4 without options is right. Of most frames the header is only in the frame. */
static __always_inline bool sound(CONTEXT *ctx, const struct nl_fl_work *w)
{
	const __u8 *data = (const __u8 *)(long)ctx->data;
	__u64 sum = 0;

	if (w->plain) {
		if (data + V4_AT + V4_BYTES > (const __u8 *)(long)ctx->data_end)
			return false;
#pragma unroll
		for (int i = 0; i < V4_BYTES; i += 4)
			sum += *(const __u32 *)(data + V4_AT + i);
	} else {
#pragma unroll
		for (int i = 0; i < V4_BYTES; i += 4)
			sum += *(const __u32 *)head_at(w, w->network + i);
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	/* A header sums to all ones with its own checksum (RFC 1071). */
	return sum == 0xffff;
}

/* Whether the result may be done here with this frame. */
static __always_inline bool applies(CONTEXT *ctx, const struct nl_fl_work *w)
{
	if (w->flags & NL_FL_PLAIN && w->odd)
		return false;
	if (w->flags & NL_FL_ALONE && w->tags > 1)
		return false;
	if (!w->least || !(w->has & NL_FL_IP))
		return true;
	/* Who decrements a TTL may have to read options, and to drop what is damaged. */
	if (w->ttl <= w->least)
		return false;
	return w->v6 || (w->transport == w->network + V4_BYTES && sound(ctx, w));
}

/* Finds the key: FOUND, or the frame is for the pipeline. */
static __always_inline int read_key(CONTEXT *ctx, struct nl_fl_work *w)
{
	int result;

	w->plain = read_plain(ctx, w);
	if (w->plain)
		return FOUND;
	/* Most headers end within half of it, and copying costs by the byte. */
	if (!read_head(ctx, w, NL_FL_HEAD / 2))
		return FOREIGN;
	result = nl_fl_parse(w);
	if (result != SHORT_VIEW)
		return result;
	return read_head(ctx, w, NL_FL_HEAD) ? nl_fl_parse(w) : FOREIGN;
}

/* The number of an interface's port, or NL_FL_NONE. */
static __always_inline __u32 port_of(__u32 ifindex)
{
	__u32 place = ifindex % NL_FL_NEAR;
	__u64 *near = bpf_map_lookup_elem(&nl_fl_near, &place);
	struct nl_fl_port *port;
	__u64 found;

	if (near) {
		/* One load: index and number always belong together. */
		found = NL_READ(*near);
		if ((__u32)found == ifindex)
			return found >> 32;
	}
	port = bpf_map_lookup_elem(&nl_fl_ports, &ifindex);
	return port ? port->number : NL_FL_NONE;
}

/* Leaves by the tap beside the port, whose reader decides. */
static __always_inline int go_beside(CONTEXT *ctx, struct nl_fl_work *w, struct nl_fl_port *port)
{
	if (!port || !port->beside)
		return VERDICT_DROP;
	if (!w->foreign)
		nl_fl_notice(ctx, w, port);
	return bpf_redirect(port->beside, 0);
}

static __always_inline int treat(CONTEXT *ctx, struct nl_fl_work *w, struct nl_fl_cpu *cpu,
				 __u32 port, __u32 number)
{
	__u32 slot, ifindex = frame_interface(ctx);

	w->key[0] = (__u64)port << 32 | port;
	w->foreign = read_key(ctx, w) != FOUND;
	if (!w->foreign) {
		slot = find(w, cpu, number);
		if (slot != NL_FL_NONE && applies(ctx, w)) {
			count(ctx, w, number, slot);
			carry_in(ctx, w, number);
			return act(ctx, w, cpu, w->first, number);
		}
	}
	cpu->missed++;
	if (nl_fl_options.beside)
		return go_beside(ctx, w, bpf_map_lookup_elem(&nl_fl_ports, &ifindex));
	nl_fl_tell(ctx, w, bpf_map_lookup_elem(&nl_fl_ports, &ifindex));
	/* From here on the pipeline alone decides about the frame, and sends it. */
	return VERDICT_DROP;
}

static __always_inline int forward(CONTEXT *ctx)
{
	__u32 port = port_of(frame_interface(ctx)), number = bpf_get_smp_processor_id();
	struct nl_fl_cpu *cpu = bpf_map_lookup_elem(&nl_fl_cpus, &number);
	struct nl_fl_work *w = bpf_map_lookup_elem(&nl_fl_works, &number);
	__u64 before;
	int verdict;

	if (port == NL_FL_NONE || !cpu || !w)
		return VERDICT_NEXT;
	/* A full barrier: user space sees that this run has begun and waits for it, or this run
	 * sees the change. */
	before = __sync_fetch_and_add(&cpu->entered, 1);
	NL_OPAQUE(before);
	verdict = treat(ctx, w, cpu, port, number);
	if (nl_fl_options.weak) {
		before = __sync_fetch_and_add(&cpu->left, 1);
		NL_OPAQUE(before);
	} else {
		/* x86 does not let a store pass earlier loads, so stopping the compiler
		 * suffices. */
		asm volatile("" ::: "memory");
		NL_WRITE(cpu->left, cpu->left + 1);
	}
	return verdict;
}

SEC("tc")
int nl_flow(struct __sk_buff *ctx)
{
	return forward(ctx);
}

/* At a tap beside a port: what its reader decided leaves by the port. */
SEC("tc")
int nl_flow_out(struct __sk_buff *ctx)
{
	__u32 ifindex = frame_interface(ctx);
	struct nl_fl_port *port = bpf_map_lookup_elem(&nl_fl_ports, &ifindex);

	/* Were it let through, the stack of this namespace would receive the frame. */
	if (!port || !port->beside)
		return VERDICT_DROP;
	return bpf_redirect(port->beside, 0);
}
