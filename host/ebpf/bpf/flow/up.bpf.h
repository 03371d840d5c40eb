/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Frames for the pipeline: copied into a ring, super-frames whole, in the order in which programs saw them. Each port has
 * a rate, so that one that floods leaves room for others.
 */
#ifndef NETLOOM_FLOW_UP_H
#define NETLOOM_FLOW_UP_H

#include <netloom/bucket.h>
#include <bpf/bpf_core_read.h>

#include "work.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} nl_fl_up SEC(".maps");

/* A member that a context does not show. */
struct sk_buff___fl {
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

#define PARTIAL 3

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;

/* Whether the checksum is unfinished, if that can be found out (Linux 6.2). */
static __always_inline __u16 unfinished(CONTEXT *ctx)
{
	struct sk_buff___fl *frame;

	if (!bpf_ksym_exists(bpf_cast_to_kern_ctx) ||
	    !bpf_core_field_exists(struct sk_buff___fl, ip_summed))
		return 0;
	frame = bpf_cast_to_kern_ctx(ctx);
	if (BPF_CORE_READ_BITFIELD(frame, ip_summed) == PARTIAL)
		return NL_FL_SUM_KNOWN | NL_FL_NEEDS_SUM;
	return NL_FL_SUM_KNOWN;
}

/* Copies the frame, with its tag in place, to room of this size. */
static __always_inline bool copy_frame(CONTEXT *ctx, __u8 *to, __u32 room)
{
	__u32 rest = frame_bytes(ctx) - ADDRESSES;

	if (!nl_within(&rest, room - ADDRESSES) || frame_load(ctx, 0, to, ADDRESSES))
		return false;
	if (!frame_tagged(ctx))
		return !frame_load(ctx, ADDRESSES, to + ADDRESSES, rest);
	if (rest > room - ADDRESSES - TAG)
		return false;
	*(__u16 *)(to + ADDRESSES) = frame_tag_type(ctx);
	*(__u16 *)(to + ADDRESSES + 2) = bpf_htons(frame_tci(ctx));
	return !frame_load(ctx, ADDRESSES, to + ADDRESSES + TAG, rest);
}

static __always_inline void describe(CONTEXT *ctx, const struct nl_fl_work *w, struct nl_fl_upcall *u)
{
	u->length = w->total;
	u->port = w->key[0] >> 32;
	u->gso_size = frame_segment(ctx);
	u->flags = unfinished(ctx);
	u->protocol = w->protocol;
	u->v6 = w->v6;
	u->transport = w->transport;
	u->zero = 0;
	u->foreign = w->foreign;
	__builtin_memcpy(u->key, w->key, sizeof(u->key));
}

/* bpf_ringbuf_reserve takes only constant sizes, hence one expansion for each room. */
#define TRY(room)                                                                       \
	do {                                                                            \
		struct nl_fl_upcall *u;                                                 \
											\
		u = bpf_ringbuf_reserve(&nl_fl_up, sizeof(*u) + (room), 0);             \
		if (!u) {                                                               \
			__sync_fetch_and_add(&port->full, 1);                           \
			return 0;                                                       \
		}                                                                       \
		describe(ctx, w, u);                                                    \
		if (!copy_frame(ctx, (__u8 *)(u + 1), room)) {                          \
			bpf_ringbuf_discard(u, BPF_RB_NO_WAKEUP);                       \
			__sync_fetch_and_add(&port->long_frames, 1);                    \
			return 0;                                                       \
		}                                                                       \
		bpf_ringbuf_submit(u, 0);                                               \
		__sync_fetch_and_add(&port->upcalls, 1);                                \
	} while (0)

/* Gives the frame to the pipeline, if there is room; it goes no further by itself. */
__noinline int nl_fl_tell(CONTEXT *ctx, const struct nl_fl_work *w, struct nl_fl_port *port)
{
	__u64 cost;

	if (!w || !port)
		return 0;
	cost = port->cost * (w->total <= NL_FL_SMALL ? 1 : w->total <= NL_FL_MIDDLE ? 4 : 128);
	if (cost && !nl_bucket_take(&port->full_at, bpf_ktime_get_ns(), port->burst, cost, true)) {
		__sync_fetch_and_add(&port->limited, 1);
		return 0;
	}
	if (w->total <= NL_FL_SMALL)
		TRY(NL_FL_SMALL);
	else if (w->total <= NL_FL_MIDDLE)
		TRY(NL_FL_MIDDLE);
	else
		TRY(NL_FL_LARGE);
	return 0;
}

/* Copies the beginning of a frame, with its tag in place. */
static __always_inline bool copy_start(CONTEXT *ctx, __u8 *to)
{
	if (frame_load(ctx, 0, to, ADDRESSES))
		return false;
	if (!frame_tagged(ctx))
		return !frame_load(ctx, ADDRESSES, to + ADDRESSES, NL_FL_START - ADDRESSES);
	*(__u16 *)(to + ADDRESSES) = frame_tag_type(ctx);
	*(__u16 *)(to + ADDRESSES + 2) = bpf_htons(frame_tci(ctx));
	return !frame_load(ctx, ADDRESSES, to + ADDRESSES + TAG, NL_FL_START - ADDRESSES - TAG);
}

/* Tells how a frame begins that goes its way without a result, if there is room: so that there may be one for the next. */
__noinline int nl_fl_notice(CONTEXT *ctx, const struct nl_fl_work *w, struct nl_fl_port *port)
{
	struct nl_fl_upcall *u;

	if (!w || !port)
		return 0;
	if (port->cost &&
	    !nl_bucket_take(&port->full_at, bpf_ktime_get_ns(), port->burst, port->cost, true)) {
		__sync_fetch_and_add(&port->limited, 1);
		return 0;
	}
	u = bpf_ringbuf_reserve(&nl_fl_up, sizeof(*u) + NL_FL_START + 6, 0);
	if (!u) {
		__sync_fetch_and_add(&port->full, 1);
		return 0;
	}
	describe(ctx, w, u);
	u->length = NL_FL_START;
	if (!copy_start(ctx, (__u8 *)(u + 1))) {
		bpf_ringbuf_discard(u, BPF_RB_NO_WAKEUP);
		return 0;
	}
	bpf_ringbuf_submit(u, 0);
	__sync_fetch_and_add(&port->upcalls, 1);
	return 0;
}

#endif
