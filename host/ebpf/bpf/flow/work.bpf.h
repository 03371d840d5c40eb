/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * What is known of the frame at hand, in memory of the CPU: too much for the stack. Programs of a switch run one
 * at a time on a CPU, because soft interrupts are off.
 */
#ifndef NETLOOM_FLOW_WORK_H
#define NETLOOM_FLOW_WORK_H

#include <netloom/kernel.h>
#include <netloom/flow.h>

#include "frame.bpf.h"

/* Bytes, padded with zeros. */
union bytes {
	__u64 words[2];
	__be32 sums[4];
	__u16 halves[8];
	__u8 bytes[16];
};

/* A change of bytes. */
struct change {
	union bytes old;
	union bytes new;
	__u32 at;
	__u32 length;
	__u32 sums; /* NL_FL_SUM_IP and so on */
	__u32 zero;
};

/* The extension headers on the way, and the next option of neighbour discovery. */
struct walk {
	__u32 seen; /* bits of OFPIEH_* */
	__u32 last; /* place in the order of RFC 8200 section 4.1 */
	__u32 destinations;
	__u32 option;
	int result;
	__u32 zero;
};

struct nl_fl_work {
	__u64 key[NL_FL_WORDS];
	__u64 masked[NL_FL_COMPARED]; /* the key's words in a mask */
	__u64 fence; /* changed for its barrier alone */
	/* Of the result: its first operation, flags, and the greatest TTL that is for the pipeline. */
	__u32 first;
	__u16 flags;
	__u16 least;
	/* Addresses in the kernel: of the interface that was sent by last, of the kinds of queueing discipline and of
	 * interface that were found by name. */
	__u64 out;
	__u64 noqueue;
	__u64 veth;
	struct change change;
	struct walk walk;
	__u32 total; /* bytes of the frame */
	__u32 view; /* of these in `head` */
	__u32 tags;
	/* Offsets: of the header behind the Ethernet header; if there are such, of the transport header, of its
	 * checksum, of the options of neighbour discovery with addresses, and behind the IP packet. */
	__u32 network;
	__u32 transport;
	__u32 sum;
	__u32 sll;
	__u32 tll;
	__u32 end;
	__u16 has; /* NL_FL_IP, NL_FL_ARP */
	__u8 protocol;
	__u8 ttl; /* of IP */
	bool v6;
	bool foreign; /* not parsed here */
	bool plain; /* read where it is: not in `head` */
	bool odd; /* edits of IP and above are for the pipeline */
	__u8 head[NL_FL_HEAD + 16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_work);
} nl_fl_works SEC(".maps");

#define ADDRESSES 12

/* Reads the first bytes into `head`, the tag among them. */
static __always_inline bool read_head(CONTEXT *ctx, struct nl_fl_work *w, __u32 most)
{
	__u32 bytes = frame_bytes(ctx), beside = frame_tagged(ctx) ? TAG : 0, rest;

	w->total = bytes + beside;
	/* This wraps for a runt, which is refused below. */
	rest = (bytes < most - TAG ? bytes : most - TAG) - ADDRESSES;
	w->view = ADDRESSES + beside + rest;
	if (bytes < ADDRESSES + 2 || !nl_within(&rest, NL_FL_HEAD - ADDRESSES - TAG))
		return false;
	if (!beside)
		return !frame_load(ctx, 0, w->head, rest + ADDRESSES);
	if (frame_load(ctx, 0, w->head, ADDRESSES) ||
	    frame_load(ctx, ADDRESSES, w->head + ADDRESSES + TAG, rest))
		return false;
	*(__u16 *)(w->head + ADDRESSES) = frame_tag_type(ctx);
	*(__u16 *)(w->head + ADDRESSES + 2) = bpf_htons(frame_tci(ctx));
	return true;
}

/* Bytes of the head, which must have been found there. */
static __always_inline const __u8 *head_at(const struct nl_fl_work *w, __u32 at)
{
	/* `head` is 16 bytes longer than the mask allows, so loads of 8 bytes stay inside. */
	return w->head + (at & (NL_FL_HEAD - 1));
}

static __always_inline __u16 head_16(const struct nl_fl_work *w, __u32 at)
{
	return bpf_ntohs(*(const __u16 *)head_at(w, at));
}

static __always_inline __u32 head_32(const struct nl_fl_work *w, __u32 at)
{
	return bpf_ntohl(*(const __u32 *)head_at(w, at));
}

static __always_inline __u64 head_64(const struct nl_fl_work *w, __u32 at)
{
	return bpf_be64_to_cpu(*(const __u64 *)head_at(w, at));
}

static __always_inline __u64 head_48(const struct nl_fl_work *w, __u32 at)
{
	return head_64(w, at) >> 16;
}

#endif
