/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * A frame as the hook (tcx, clsact) shows it: a socket buffer.
 * Offsets elsewhere count with all VLAN tags in place; a socket buffer may have the first beside the frame.
 */
#ifndef NETLOOM_FLOW_FRAME_H
#define NETLOOM_FLOW_FRAME_H

#include <bpf/bpf_endian.h>

#define TAG 4
/* Where tags begin. */
#define TAGS_AT 12

#define CONTEXT struct __sk_buff
#define VERDICT_DROP NL_DROP
#define VERDICT_NEXT NL_NEXT

#define frame_interface(ctx) ((ctx)->ifindex)
#define frame_bytes(ctx) ((ctx)->len)
#define frame_load(ctx, at, to, size) bpf_skb_load_bytes(ctx, at, to, size)
/* Whether a tag is beside the frame; its type in network order, its content. */
#define frame_tagged(ctx) ((ctx)->vlan_present != 0)
#define frame_tag_type(ctx) ((ctx)->vlan_proto)
#define frame_tci(ctx) ((ctx)->vlan_tci)
#define frame_segment(ctx) ((ctx)->gso_size)
#define frame_segments(ctx) ((ctx)->gso_segs)

/* The offset in the kernel's buffer of one with all tags. */
static __always_inline __u32 frame_at(CONTEXT *ctx, __u32 at)
{
	return frame_tagged(ctx) && at >= TAGS_AT + TAG ? at - TAG : at;
}

#endif
