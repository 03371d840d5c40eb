/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The flow key of a frame, and where its headers are: must equal core/pipeline/src/headers.rs in every frame that
 * it accepts. It does not accept fragments, which no result may be kept of, and headers beyond what is looked at.
 */
#ifndef NETLOOM_FLOW_KEY_H
#define NETLOOM_FLOW_KEY_H

#include "work.bpf.h"

#define ICMP 1
#define TCP 6
#define UDP 17
#define ICMPV6 58
#define SCTP 132

#define VID_PRESENT 0x1000
/* The reference follows 16 tags and headers; more tags than these are left to it. */
#define MOST_TAGS 8
#define MOST_HEADERS 16

/* Results: the key is found; more of the head is needed; the frame is for the pipeline. */
#define FOUND 0
#define SHORT_VIEW 1
#define FOREIGN 2

/* Whether bytes are in the head, in the frame behind it, or absent. */
#define HERE 0
#define BEHIND 1
#define ABSENT 2

static __always_inline int where(const struct nl_fl_work *w, __u32 at, __u32 size, __u32 end)
{
	if (at + size > end)
		return ABSENT;
	return at + size > w->view ? BEHIND : HERE;
}

static __always_inline bool is_tag(__u16 type)
{
	return type == 0x8100 || type == 0x88a8;
}

/* Tags and ethertype. */
static __always_inline int read_ethernet(struct nl_fl_work *w, __u16 *ethertype)
{
	__u32 at = TAGS_AT, tags = 0;
	__u64 source, type;

	w->key[3] = head_48(w, 0) << 16;
	source = head_48(w, 6) << 16;
	type = head_16(w, at);
	for (int i = 0; i <= MOST_TAGS; i++) {
		/* A tag that is cut before the next type counts as an unknown ethertype, as in
		 * the pipeline. */
		if (!is_tag(type) || at + 6 > w->total)
			break;
		if (tags == MOST_TAGS)
			return FOREIGN;
		if (at + 6 > w->view)
			return SHORT_VIEW;
		if (!tags) {
			__u16 tci = head_16(w, at + 2);

			source |= (tci >> 13) << 13 | VID_PRESENT | (tci & 0xfff);
		}
		at += TAG;
		tags++;
		type = head_16(w, at);
	}
	w->key[4] = source;
	w->tags = tags;
	if (type < 0x600) {
		/* IEEE 802.3: the ethertype is that of SNAP. */
		int llc = where(w, at + 2, 8, w->total);

		if (llc == BEHIND)
			return SHORT_VIEW;
		/* AA-AA-03 with OUI 0 (RFC 1042): only then does an ethertype follow. */
		if (llc == HERE && head_48(w, at + 2) == 0xaaaa03000000ULL) {
			at += 8;
			type = head_16(w, at);
		} else {
			/* OFP_DL_TYPE_NOT_ETH_TYPE of OpenFlow 1.0. */
			type = 0x05ff;
		}
	}
	w->key[3] |= type;
	w->network = at + 2;
	*ethertype = type;
	return FOUND;
}

static __always_inline int read_arp(struct nl_fl_work *w)
{
	__u32 at = w->network;
	int there = where(w, at, 28, w->total);

	if (there != HERE)
		return there == BEHIND ? SHORT_VIEW : FOUND;
	/* Ethernet and IPv4, lengths 6 and 4: in others the addresses stand elsewhere. */
	if (head_48(w, at) != 0x000108000604ULL)
		return FOUND;
	w->key[14] = head_48(w, at + 8) << 16 | head_16(w, at + 6);
	w->key[15] = head_48(w, at + 18) << 16;
	w->key[6] = (__u64)head_32(w, at + 14) << 32 | head_32(w, at + 24);
	if (head_16(w, at + 6))
		w->has |= NL_FL_ARP;
	return FOUND;
}

static __always_inline void set_class(struct nl_fl_work *w, __u8 class)
{
	w->key[5] |= (__u64)(class >> 2) << 10 | (class & 3) << 8;
}

static __always_inline int read_v4(struct nl_fl_work *w)
{
	__u32 at = w->network, length, total;
	__u8 first;
	int there = where(w, at, 20, w->total);

	if (there != HERE)
		return there == BEHIND ? SHORT_VIEW : FOUND;
	first = *head_at(w, at);
	length = (first & 15) * 4;
	total = head_16(w, at + 2);
	/* Of a damaged header nothing is matched: the key ends with the ethertype. */
	if (first >> 4 != 4 || length < 20 || total < length || at + length > w->total)
		return FOUND;
	/* More fragments, or an offset. DF and the reserved bit are not looked at. */
	if (head_16(w, at + 6) & 0x3fff)
		return FOREIGN;
	set_class(w, *head_at(w, at + 1));
	w->ttl = *head_at(w, at + 8);
	w->protocol = *head_at(w, at + 9);
	w->key[5] |= w->protocol;
	w->key[6] = head_64(w, at + 12);
	w->has |= NL_FL_IP;
	w->transport = at + length;
	w->end = at + total;
	return FOUND;
}

/* Bits of OFPIEH_*. */
#define NO_NEXT 1
#define ESP (1 << 1)
#define AUTH (1 << 2)
#define DEST (1 << 3)
#define FRAG (1 << 4)
#define ROUTER (1 << 5)
#define HOP (1 << 6)
#define REPEATED (1 << 7)
#define SEQUENCE (1 << 8)

/* Notes a header; whether another may follow. */
static __always_inline bool note(struct walk *e, __u8 protocol)
{
	__u32 bit, order, again;

	switch (protocol) {
	case 0:
		bit = HOP, order = 1;
		break;
	case 43:
		bit = ROUTER, order = 3;
		break;
	case 44:
		bit = FRAG, order = 4;
		break;
	case 51:
		bit = AUTH, order = 5;
		break;
	case 50:
		bit = ESP, order = 6;
		break;
	case 60:
		/* RFC 8200, 4.1, has this header twice: before a routing header, and last. */
		bit = DEST, order = !(e->seen & ROUTER) && e->last < 2 ? 2 : 7;
		break;
	case 59:
		bit = NO_NEXT, order = 8;
		break;
	default:
		return false;
	}
	e->destinations += bit == DEST;
	/* Only destination options may occur twice. */
	again = e->seen & bit && (bit != DEST || e->destinations > 2);
	e->seen |= bit | (again ? REPEATED : 0) | (order < e->last ? SEQUENCE : 0);
	e->last = order;
	/* Behind ESP everything is encrypted; 59 says that nothing follows. */
	return protocol != 50 && protocol != 59;
}

/* Skips an extension header; whether another header may follow. */
static __always_inline bool skip(struct nl_fl_work *w, struct walk *e)
{
	__u32 at = w->transport, units;
	__u8 protocol = w->protocol;
	int there = where(w, at, 8, w->end);

	if (there != HERE) {
		e->result = there == BEHIND ? SHORT_VIEW : FOUND;
		return false;
	}
	units = *head_at(w, at + 1);
	/* Segments are left: the pseudo-header has the final destination instead of the header's
	 * (RFC 8200, 8.1), so an edit of the address would spoil the sum. */
	if (protocol == 43 && *head_at(w, at + 3))
		w->odd = true;
	/* An offset or the M flag. A fragment that is a whole packet (RFC 6946) is parsed. */
	if (protocol == 44 && head_16(w, at + 2) & 0xfff9) {
		e->result = FOREIGN;
		return false;
	}
	w->protocol = *head_at(w, at);
	/* Fragment headers are 8 bytes; AH counts words of 4 less two, others words of 8 less
	 * one. */
	w->transport = at + (protocol == 44 ? 8 : protocol == 51 ? (units + 2) * 4 : (units + 1) * 8);
	return true;
}

/* One header; whether another may follow. Verified separately: the verifier would follow each combination of headers. */
__noinline int nl_fl_extension(struct nl_fl_work *w)
{
	return w && note(&w->walk, w->protocol) && skip(w, &w->walk);
}

static __always_inline int read_extensions(struct nl_fl_work *w)
{
	w->walk.seen = w->walk.last = w->walk.destinations = 0;
	w->walk.result = FOUND;
	for (int i = 0; i < MOST_HEADERS; i++)
		if (!nl_fl_extension(w))
			break;
	w->key[7] |= w->walk.seen;
	return w->walk.result;
}

static __always_inline int read_v6(struct nl_fl_work *w)
{
	__u32 at = w->network, word, end;
	int there = where(w, at, 40, w->total), result = FOUND;

	if (there != HERE)
		return there == BEHIND ? SHORT_VIEW : FOUND;
	word = head_32(w, at);
	if (word >> 28 != 6)
		return FOUND;
	set_class(w, word >> 20);
	w->key[7] = (__u64)(word & 0xfffff) << 12;
	w->key[8] = head_64(w, at + 8);
	w->key[9] = head_64(w, at + 16);
	w->key[10] = head_64(w, at + 24);
	w->key[11] = head_64(w, at + 32);
	w->has |= NL_FL_IP;
	w->v6 = true;
	w->ttl = *head_at(w, at + 7);
	w->protocol = *head_at(w, at + 6);
	w->transport = at + 40;
	end = at + 40 + head_16(w, at + 4);
	w->odd = end > w->total;
	w->end = end < w->total ? end : w->total;
	if (w->protocol != TCP && w->protocol != UDP && w->protocol != ICMPV6)
		result = read_extensions(w);
	w->key[5] |= w->protocol;
	return result;
}

/* One option; whether another may follow. Verified separately. */
__noinline int nl_fl_option(struct nl_fl_work *w)
{
	__u32 at, wanted;
	__u8 units;
	int there;

	if (!w)
		return false;
	at = w->walk.option;
	there = where(w, at, 2, w->end);
	w->walk.result = there == BEHIND ? SHORT_VIEW : FOUND;
	if (there != HERE)
		return false;
	units = *head_at(w, at + 1);
	there = where(w, at + 2, 6, w->end);
	if (there == BEHIND) {
		w->walk.result = SHORT_VIEW;
		return false;
	}
	/* A solicitation has its sender's link-layer address (option 1), an advertisement its
	 * target's (option 2). */
	wanted = *head_at(w, w->transport) == 135 ? 1 : 2;
	if (there == HERE && units && *head_at(w, at) == wanted) {
		w->key[13 + wanted] = head_48(w, at + 2) << 16;
		if (wanted == 1)
			w->sll = at + 2;
		else
			w->tll = at + 2;
	}
	w->walk.option = at + units * 8;
	/* Length 0 is invalid (RFC 4861, 4.6), and the walk would not advance. */
	return units;
}

/* Target and link-layer addresses of neighbour discovery (RFC 4861 section 4). */
static __always_inline int read_neighbour(struct nl_fl_work *w)
{
	__u32 at = w->transport;
	__u8 kind = *head_at(w, at);
	int there;

	if ((kind != 135 && kind != 136) || *head_at(w, at + 1))
		return FOUND;
	there = where(w, at + 8, 16, w->end);
	if (there != HERE)
		return there == BEHIND ? SHORT_VIEW : FOUND;
	w->key[12] = head_64(w, at + 8);
	w->key[13] = head_64(w, at + 16);
	w->walk.option = at + 24;
	w->walk.result = FOUND;
	for (int i = 0; i < MOST_HEADERS; i++)
		if (!nl_fl_option(w))
			break;
	return w->walk.result;
}

/* Where the checksum is in the transport header; 0: it has none that is kept right. */
static __always_inline __u32 sum_offset(const struct nl_fl_work *w)
{
	switch (w->protocol) {
	case TCP:
		return 16;
	case UDP:
		return 6;
	case ICMP:
		return w->v6 ? 0 : 2;
	case ICMPV6:
		return w->v6 ? 2 : 0;
	default:
		return 0;
	}
}

static __always_inline int read_transport(struct nl_fl_work *w)
{
	__u32 at = w->transport, sum = sum_offset(w);
	__u8 protocol = w->protocol;
	int there;

	if (sum) {
		there = where(w, at + sum, 2, w->end);
		if (there == BEHIND)
			return SHORT_VIEW;
		if (there == HERE)
			w->sum = at + sum;
		else
			w->odd = true;
	}
	if (protocol == TCP || protocol == UDP || protocol == SCTP) {
		there = where(w, at, 4, w->end);
		if (there != HERE)
			return there == BEHIND ? SHORT_VIEW : FOUND;
		w->key[7] |= (__u64)head_32(w, at) << 32;
		return FOUND;
	}
	if (protocol != (w->v6 ? ICMPV6 : ICMP))
		return FOUND;
	there = where(w, at, 2, w->end);
	if (there != HERE)
		return there == BEHIND ? SHORT_VIEW : FOUND;
	w->key[7] |= (__u64)*head_at(w, at) << 48 | (__u64)*head_at(w, at + 1) << 32;
	return w->v6 ? read_neighbour(w) : FOUND;
}

/* From the head to the key. Verified separately. */
__noinline int nl_fl_parse(struct nl_fl_work *w)
{
	__u16 ethertype = 0;
	int result, there;

	if (!w)
		return FOREIGN;
#pragma unroll
	for (int i = 1; i < NL_FL_WORDS; i++)
		w->key[i] = 0;
	w->transport = w->sum = w->sll = w->tll = w->end = 0;
	w->has = w->protocol = w->ttl = 0;
	w->v6 = w->odd = false;
	result = read_ethernet(w, &ethertype);
	if (result != FOUND)
		return result;
	switch (ethertype) {
	case 0x0800:
		result = read_v4(w);
		if (w->end > w->total) {
			w->odd = true;
			w->end = w->total;
		}
		break;
	case 0x86dd:
		result = read_v6(w);
		break;
	case 0x0806:
	case 0x8035:
		return read_arp(w);
	case 0x88e7:
		there = where(w, w->network + 1, 3, w->total);
		if (there == BEHIND)
			return SHORT_VIEW;
		if (there == HERE)
			w->key[5] = (__u64)(head_64(w, w->network + 1) >> 40) << 40;
		return FOUND;
	case 0x8847:
	case 0x8848:
		there = where(w, w->network, 4, w->total);
		if (there == BEHIND)
			return SHORT_VIEW;
		if (there == HERE) {
			__u64 label = head_32(w, w->network);

			/* RFC 3032. OpenFlow matches label, traffic class and bottom of stack,
			 * not the TTL. */
			w->key[5] = (label >> 12) << 20 | (label >> 9 & 7) << 17 | (label >> 8 & 1) << 16;
		}
		return FOUND;
	}
	return result == FOUND && w->has & NL_FL_IP ? read_transport(w) : result;
}

#endif
