/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The flow key of plain frames, which are most: TCP or UDP over IPv4, without a tag, options, fragments or anything
 * odd, read where they are. Must equal key.bpf.h, which takes all others: a copy of the head and the general parser
 * cost several times as much.
 */
#ifndef NETLOOM_FLOW_PLAIN_H
#define NETLOOM_FLOW_PLAIN_H

#include "key.bpf.h"

#define V4_AT 14
#define V4_BYTES 20
#define TRANSPORT_AT (V4_AT + V4_BYTES)
/* All that is read: TCP's header. No frame of Ethernet is shorter. */
#define PLAIN (TRANSPORT_AT + 20)

#define READ_16(at) bpf_ntohs(*(const __u16 *)(data + (at)))
#define READ_32(at) bpf_ntohl(*(const __u32 *)(data + (at)))
#define READ_64(at) bpf_be64_to_cpu(*(const __u64 *)(data + (at)))

/* Whether it is one; its key and all that the general parser notes. */
static __always_inline bool read_plain(CONTEXT *ctx, struct nl_fl_work *w)
{
	const __u8 *data = (const __u8 *)(long)ctx->data;
	__u32 bytes, end, sum;
	__u8 class;

	/* This one check of the end covers every read below. */
	if (frame_tagged(ctx) || data + PLAIN > (const __u8 *)(long)ctx->data_end)
		return false;
	if (READ_16(TAGS_AT) != 0x0800 || data[V4_AT] != 0x45 || READ_16(V4_AT + 6) & 0x3fff)
		return false;
	w->protocol = data[V4_AT + 9];
	if (w->protocol != TCP && w->protocol != UDP)
		return false;
	sum = TRANSPORT_AT + (w->protocol == TCP ? 16 : 6);
	bytes = frame_bytes(ctx);
	end = V4_AT + READ_16(V4_AT + 2);
	/* A packet that is cut, or that lacks its checksum, needs the general parser's care. */
	if (end > bytes || sum + 2 > end)
		return false;
	class = data[V4_AT + 1];
	w->key[1] = w->key[2] = 0;
	w->key[3] = (READ_64(0) & ~0xffffULL) | 0x0800;
	w->key[4] = READ_64(6) & ~0xffffULL;
	w->key[5] = (__u64)(class >> 2) << 10 | (class & 3) << 8 | w->protocol;
	w->key[6] = READ_64(V4_AT + 12);
	w->key[7] = (__u64)READ_32(TRANSPORT_AT) << 32;
#pragma unroll
	for (int i = 8; i < NL_FL_WORDS; i++)
		w->key[i] = 0;
	w->total = bytes;
	w->network = V4_AT;
	w->transport = TRANSPORT_AT;
	w->sum = sum;
	w->end = end;
	w->tags = w->sll = w->tll = 0;
	w->has = NL_FL_IP;
	w->ttl = data[V4_AT + 8];
	w->v6 = w->odd = false;
	/* All of the head that is looked at later: where TCP's data begin. */
	w->head[TRANSPORT_AT + 12] = data[TRANSPORT_AT + 12];
	return true;
}

#endif
