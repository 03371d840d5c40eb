/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Writes bytes of a frame and changes the checksums over them by difference (RFC 1624).
 *
 * In a socket buffer a checksum may be unfinished (only the sum of the pseudo-header is in place) or known for the
 * whole frame. The kernel's helpers keep all three right if told which changes balance: one in an IPv4 header
 * balances with the header's checksum, one in a transport header with the transport's. One that nothing balances is
 * written with BPF_F_RECOMPUTE_CSUM; so is an IPv6 address, because the helper counts every change of a
 * pseudo-header as if a header's checksum balanced the address.
 */
#ifndef NETLOOM_FLOW_SUMS_H
#define NETLOOM_FLOW_SUMS_H

#include "work.bpf.h"

#define frame_store(ctx, at, from, size, balanced) \
	bpf_skb_store_bytes(ctx, at, from, size, (balanced) ? 0 : BPF_F_RECOMPUTE_CSUM)
#define change_header_sum(ctx, at, difference) bpf_l3_csum_replace(ctx, at, 0, difference, 0)
#define change_transport_sum(ctx, at, difference, pseudo, udp)                             \
	bpf_l4_csum_replace(ctx, at, 0, difference, ((pseudo) ? BPF_F_PSEUDO_HDR : 0) |    \
							    ((udp) ? BPF_F_MARK_MANGLED_0 : 0))

/* Does the change in `w`: 0, or an error. Verified separately, as is all that a loop calls. */
__noinline int nl_fl_change(CONTEXT *ctx, struct nl_fl_work *w)
{
	struct change *c;
	bool pseudo, covered, balanced;
	__u32 difference, length;

	if (!w)
		return -1;
	c = &w->change;
	pseudo = c->sums & NL_FL_SUM_PSEUDO;
	covered = c->sums & (NL_FL_SUM_TRANSPORT | NL_FL_SUM_PSEUDO) && w->sum;
	/* A write that a transport sum would cover is unbalanced if the frame has no such sum. */
	balanced = !(c->sums & NL_FL_RECOMPUTE) && (covered || !(c->sums & NL_FL_SUM_TRANSPORT));
	length = c->length;
	if (!nl_within(&length, sizeof(c->new)))
		return -1;
	if (frame_store(ctx, frame_at(ctx, c->at), c->new.bytes, length, balanced))
		return -1;
	if (!(c->sums & NL_FL_SUM_IP) && !covered)
		return 0;
	/* Both are padded with zeros, because bpf_csum_diff takes whole words of 4 bytes. */
	difference = bpf_csum_diff(c->old.sums, sizeof(c->old), c->new.sums, sizeof(c->new), 0);
	if (c->sums & NL_FL_SUM_IP &&
	    change_header_sum(ctx, frame_at(ctx, w->network + 10), difference))
		return -1;
	if (!covered)
		return 0;
	/* In UDP 0 means "no checksum" and stays; a sum that becomes 0 is sent as 0xffff (RFC
	 * 768). */
	return change_transport_sum(ctx, frame_at(ctx, w->sum), difference, pseudo, w->protocol == UDP);
}

/* Prepares a change of bytes, which are read; 0, or an error. */
__noinline int nl_fl_look(CONTEXT *ctx, struct nl_fl_work *w, __u32 at, __u32 length, __u32 sums)
{
	struct change *c;

	if (!w)
		return -1;
	c = &w->change;
	c->at = at;
	c->length = length;
	c->sums = sums;
	c->old.words[0] = c->old.words[1] = 0;
	if (!nl_within(&length, sizeof(c->old)))
		return -1;
	return frame_load(ctx, frame_at(ctx, at), c->old.bytes, length);
}

#endif
