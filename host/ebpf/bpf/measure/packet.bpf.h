/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Parses headers, as netloom_marking::Packet does. If headers are not in the first part, the frame
 * is pulled and parsed again.
 */
#ifndef NETLOOM_MEASURE_PACKET_H
#define NETLOOM_MEASURE_PACKET_H

#include <bpf/bpf_endian.h>

#include "frame.bpf.h"

#define ICMP 1
#define TCP 6
#define UDP 17
#define ICMPV6 58
#define SCTP 132
#define UDP_LITE 136

#define V4_HEADER 20
#define V6_HEADER 40
#define MOST_EXTENSIONS 8
#define HOP_BY_HOP 0
#define ROUTING 43
#define FRAGMENT 44
#define AUTHENTICATION 51
#define DESTINATION 60

/* Bytes pulled of a frame: link header, two tags, headers with options. */
#define PULLED 192
/* Offsets below this have bounds that the verifier can see. */
#define NEAR 0x3fff

/* Fragments. */
#define WHOLE 0
#define FIRST 1
#define LATER 2

/* Results of parsing a frame. */
#define BAD 0
#define GOOD 1
#define CUT 2

/* A packet: offsets are from its IP header, except `l3`, the header's own. */
struct packet {
	__u32 l3;
	__u32 transport;
	__u32 end; /* as stated by the header */
	__u32 has; /* bytes present */
	__u32 word; /* IPv4: identification, flags, offset */
	__u32 fragment_id; /* IPv6 */
	__u16 fragment_word; /* IPv6: offset with the flag, in network order */
	__u8 fragment;
	__u8 protocol;
	__u8 class;
	bool v6;
	bool has_ports;
	union {
		struct nl_me_v4 v4;
		struct nl_me_key key;
	} __attribute__((aligned(8)));
};

static __always_inline bool has_ports(__u8 protocol)
{
	return protocol == TCP || protocol == UDP || protocol == UDP_LITE || protocol == SCTP;
}

/* The same memory as words. */
typedef __u64 __attribute__((may_alias)) word;

/* A key of IPv4 as words: the addresses; then ports and protocol. */
static __always_inline word *v4_words(struct nl_me_v4 *key)
{
	return (word *)key;
}

/* Two halves of a word, in the order of memory. */
static __always_inline __u64 halves(__u32 first, __u32 second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return first | (__u64)second << 32;
#else
	return (__u64)first << 32 | second;
#endif
}

/* A key as words: family, protocol and ports; then the addresses. */
static __always_inline __u64 *key_words(struct nl_me_key *key)
{
	return (__u64 *)key;
}

static __always_inline bool is_tag(__u16 type)
{
	return type == bpf_htons(0x8100) || type == bpf_htons(0x88a8);
}

/* Whether these payload bytes are all present. */
static __always_inline bool within(const struct packet *p, __u32 at, __u32 size)
{
	__u32 to = p->transport + at + size;

	return to <= p->end && to <= p->has;
}

/* Reads four payload bytes; returns whether they are present. Global functions are verified
 * separately, which keeps programs small for the verifier. */
__noinline int nl_me_four(CONTEXT *skb, const struct packet *p, __u32 at, __u32 *to)
{
	void *data, *end;
	__u32 from;

	if (!p || !to || !within(p, at, 4))
		return false;
	from = p->l3 + p->transport + at;
	if (from < NEAR) {
		data = (void *)(long)skb->data + (from & NEAR);
		end = (void *)(long)skb->data_end;
		if (data + 4 <= end) {
			*to = *(__u32 *)data;
			return true;
		}
	}
	return !frame_load(skb, from, to, 4);
}

/* Sets the packet's end as its header states it; its bytes may span several parts. */
static __always_inline void ends_at(CONTEXT *skb, struct packet *p, __u32 end)
{
	p->end = end ? end : p->has;
	/* In XDP only the first part was counted so far: this helper asks for all. */
	if (p->end > p->has)
		p->has = frame_whole(skb) - p->l3;
}

static __always_inline int read_v4(CONTEXT *skb, struct packet *p, void *ip, void *end)
{
	__u32 header, total, bits;
	__u8 protocol;
	void *ports;

	header = (*(__u8 *)ip & 15) * 4;
	if (header < V4_HEADER || p->has < header)
		return BAD;
	total = bpf_ntohs(*(__u16 *)(ip + 2));
	/* 0 is a super-frame beyond 64 KiB (BIG TCP): it ends with the frame. */
	if (total && total < header)
		return BAD;
	p->v6 = false;
	p->transport = header;
	ends_at(skb, p, total);
	p->class = *(__u8 *)(ip + 1);
	p->word = *(__u32 *)(ip + 4);
	bits = bpf_ntohs(*(__u16 *)(ip + 6));
	p->fragment = bits & 0x1fff ? LATER : bits & 0x2000 ? FIRST : WHOLE;
	protocol = *(__u8 *)(ip + 9);
	p->protocol = protocol;
	/* Written as they are read, by words: else a processor waits for the halves. */
	v4_words(&p->v4)[0] = *(const word *)(ip + 12);
	v4_words(&p->v4)[1] = halves(0, protocol);
	if (p->fragment == LATER || !has_ports(protocol) || !within(p, 0, 4))
		return GOOD;
	ports = ip + header;
	if (ports + 4 > end)
		return CUT;
	v4_words(&p->v4)[1] = halves(*(__u32 *)ports, protocol | 256);
	return GOOD;
}

/* Steps over one extension header: GOOD to continue, CUT at the end, BAD if it is incomplete. */
static __always_inline int extension(CONTEXT *skb, struct packet *p)
{
	__u8 header[8];
	__u32 length;
	__u16 bits;

	switch (p->protocol) {
	case HOP_BY_HOP:
	case ROUTING:
	case DESTINATION:
	case AUTHENTICATION:
	case FRAGMENT:
		break;
	default:
		return CUT;
	}
	/* Behind a later fragment's header are data, whatever the next header says. */
	if (p->fragment == LATER)
		return CUT;
	if (!within(p, 0, 8) || frame_load(skb, p->l3 + p->transport, header, 8))
		return BAD;
	/* AH counts words of 4 bytes less two (RFC 4302), others words of 8 less one. */
	length = p->protocol == FRAGMENT ? 8 :
		 p->protocol == AUTHENTICATION ? (header[1] + 2) * 4 : (header[1] + 1) * 8;
	if (!within(p, 0, length))
		return BAD;
	if (p->protocol == FRAGMENT) {
		bits = header[2] << 8 | header[3];
		/* A packet in one fragment (RFC 6946) is whole. */
		if (bits & 0xfff9) {
			p->fragment = bits & 0xfff8 ? LATER : FIRST;
			p->fragment_word = bpf_htons(bits & 0xfff9);
			__builtin_memcpy(&p->fragment_id, header + 4, 4);
		}
	}
	p->protocol = header[0];
	p->transport += length;
	return GOOD;
}

static __noinline int extensions(CONTEXT *skb, struct packet *p)
{
	__u32 ports;

	for (int i = 0; i < MOST_EXTENSIONS; i++) {
		int step = extension(skb, p);

		if (step == BAD)
			return BAD;
		if (step == CUT)
			break;
	}
	p->key.protocol = p->protocol;
	if (p->fragment == LATER || !has_ports(p->protocol) || !nl_me_four(skb, p, 0, &ports))
		return GOOD;
	p->key.ports = ports;
	p->key.has_ports = 1;
	return GOOD;
}

static __always_inline int read_v6(CONTEXT *skb, struct packet *p, void *ip, void *end, bool plain)
{
	__u32 length;
	__u8 protocol;

	if (ip + V6_HEADER > end)
		return p->has < V6_HEADER ? BAD : CUT;
	length = bpf_ntohs(*(__u16 *)(ip + 4));
	protocol = *(__u8 *)(ip + 6);
	p->v6 = true;
	p->transport = V6_HEADER;
	/* 0 is a super-frame beyond 64 KiB, here as in IPv4. */
	ends_at(skb, p, length ? V6_HEADER + length : 0);
	p->class = *(__u8 *)ip << 4 | *(__u8 *)(ip + 1) >> 4;
	p->fragment = WHOLE;
	p->protocol = protocol;
	p->key.family = 6;
	p->key.protocol = protocol;
	p->key.has_ports = 0;
	p->key.zero = 0;
	p->key.ports = 0;
	/* By words, because the compiler knows no alignment. */
#pragma unroll
	for (int word = 0; word < 4; word++)
		key_words(&p->key)[word + 1] = ((const __u64 *)(ip + 8))[word];
	if (has_ports(protocol) && ip + V6_HEADER + 4 <= end) {
		if (within(p, 0, 4)) {
			p->key.ports = *(__u32 *)(ip + V6_HEADER);
			p->key.has_ports = 1;
		}
		return GOOD;
	}
	return plain ? CUT : extensions(skb, p);
}

/* Parses what follows the link header and up to two tags in the frame. `plain`: leaves frames with
 * tags or extension headers to the full parser. */
static __always_inline int read_packet(CONTEXT *skb, struct packet *p, bool plain)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end, *ip = data;
	__u16 type = frame_protocol(skb);

	if (nl_me_options.link) {
		ip = data + nl_me_options.link;
		if (ip > end)
			return frame_length(skb) < nl_me_options.link ? BAD : CUT;
		type = *(__u16 *)(ip - 2);
		if (plain && is_tag(type))
			return CUT;
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (is_tag(type)) {
				ip += 4;
				if (ip > end)
					return frame_length(skb) < ip - data ? BAD : CUT;
				type = *(__u16 *)(ip - 2);
			}
	}
	if (type != bpf_htons(0x0800) && type != bpf_htons(0x86dd))
		return BAD;
	p->l3 = ip - data;
	p->has = frame_length(skb) - p->l3;
	if (ip + V4_HEADER > end)
		return p->has < V4_HEADER ? BAD : CUT;
	switch (*(__u8 *)ip >> 4) {
	case 4:
		return read_v4(skb, p, ip, end);
	case 6:
		return read_v6(skb, p, ip, end, plain);
	default:
		return BAD;
	}
}

static __noinline int read_pulled(CONTEXT *skb, struct packet *p)
{
	if (!frame_pull(skb, PULLED))
		return BAD;
	return read_packet(skb, p, false);
}

/* Parses any frame. Verified separately: otherwise the verifier repeats what follows for every way
 * of parsing, which takes five times as long. */
__noinline int nl_me_read(CONTEXT *skb, struct packet *p)
{
	int found;

	if (!p)
		return BAD;
	found = read_packet(skb, p, false);
	return found == CUT ? read_pulled(skb, p) : found;
}

/* Whether the frame has a packet, then in `p`. Most are plain; a call costs as much as parsing one. */
static __always_inline bool read_frame(CONTEXT *skb, struct packet *p)
{
	int found = read_packet(skb, p, true);

	if (found == CUT)
		found = nl_me_read(skb, p);
	return found == GOOD;
}

#endif
