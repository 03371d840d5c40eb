/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The hash input of packets: the bytes that netloom_marking::Profile lists. A segment of a
 * super-frame has the bytes of its future packet, or none.
 */
#ifndef NETLOOM_MEASURE_INPUT_H
#define NETLOOM_MEASURE_INPUT_H

#define MOST_PART 32
/* Whole words before a part of the payload: for IPv6 3 and 2 for fragments, then 3. */
#define MOST_WORDS 8
#define INPUT (MOST_WORDS * 4 + MOST_PART)

/* How a packet is to be hashed. */
struct segment {
	bool is; /* part of a super-frame */
	bool fixed_id;
	bool partial; /* its checksum is unfinished */
	bool strange; /* of a super-frame with unknown segments */
	__u32 index;
	__u32 size; /* bytes of data in each segment but the last */
};

/* The hash input, padded with zeros. */
struct input {
	union {
		__u32 words[INPUT / 4 + 3];
		__u8 bytes[INPUT + 12];
	};
	__u32 used;
};

static __always_inline void push(struct input *in, __u32 word)
{
	__u32 at = in->used;

	/* Words are pushed before the payload part: they always fit. */
	if (at <= MOST_WORDS * 4)
		*(__u32 *)(in->bytes + (at & 0x3c)) = word;
	in->used = at + 4;
}

static __always_inline __u32 before(const struct segment *s)
{
	return s->is ? s->index * s->size : 0;
}

/* The payload length of the IP packet as on the wire; false if it exceeds 16 bits. */
static __always_inline bool payload_length(CONTEXT *skb, const struct packet *p,
					   const struct segment *s, __u32 *length)
{
	__u32 whole = p->end > p->transport ? p->end - p->transport : 0;
	__u32 header = 8, word, ahead;

	if (s->is) {
		if (p->protocol == TCP) {
			if (!nl_me_four(skb, p, 12, &word))
				return false;
			header = (bpf_ntohl(word) >> 28) * 4;
		} else if (p->protocol != UDP) {
			return false;
		}
		ahead = header + before(s);
		if (whole < ahead)
			return false;
		whole -= ahead;
		whole = header + (whole < s->size ? whole : s->size);
	}
	*length = whole;
	return whole <= 0xffff;
}

static __always_inline void push_v4(struct input *in, const struct packet *p,
				    const struct segment *s)
{
	__u32 word = bpf_ntohl(p->word);
	__u32 id = word >> 16;

	/* Segmentation counts identifications up, except where TCP's sender fixed them. */
	if (s->is && !s->fixed_id)
		id = (id + s->index) & 0xffff;
	push(in, bpf_htonl(id << 16 | (word & 0xffff)));
	push(in, p->v4.src);
	push(in, p->v4.dst);
}

/* The address bytes that RFC 5475 names, ten in all: bytes 9, 10, 13, 14 of an address, and its last. */
static __always_inline __u32 four_of(const __u32 *address, __u32 *last)
{
	__u32 third = bpf_ntohl(address[2]), fourth = bpf_ntohl(address[3]);

	*last = fourth & 0xff;
	return (third >> 8 & 0xffff) << 16 | (fourth >> 8 & 0xffff);
}

/* The ten bytes, then two zero bytes. */
static __always_inline void v6_words(const struct packet *p, __u32 *words)
{
	__u32 of_src, of_dst, s = four_of(p->key.src, &of_src), d = four_of(p->key.dst, &of_dst);

	words[0] = bpf_htonl(s);
	words[1] = bpf_htonl(of_src << 24 | d >> 8);
	words[2] = bpf_htonl(d << 24 | of_dst << 16);
}

/* The ten bytes, after two given bytes or before two zero bytes. */
static __always_inline void push_v6(struct input *in, const struct packet *p, bool ahead, __u16 two)
{
	__u32 of_src, of_dst, s = four_of(p->key.src, &of_src), d = four_of(p->key.dst, &of_dst);
	__u32 words[3];

	if (ahead) {
		push(in, bpf_htonl((__u32)two << 16 | s >> 16));
		push(in, bpf_htonl(s << 16 | of_src << 8 | d >> 24));
		push(in, bpf_htonl(d << 8 | of_dst));
		return;
	}
	v6_words(p, words);
	push(in, words[0]);
	push(in, words[1]);
	push(in, words[2]);
}

/* Reads 1 to MOST_PART bytes of the payload. */
static __always_inline bool load_part(CONTEXT *skb, const struct packet *p, __u32 at, void *to,
				      __u32 size)
{
	/* Only this proves to the verifier of Linux before 6.8 that it is not 0. */
	size--;
	NL_OPAQUE(size);
	size = (size & (MOST_PART - 1)) + 1;
	return !frame_load(skb, p->l3 + p->transport + at, to, size);
}

/* Appends bytes of the payload. */
static __always_inline bool push_bytes(CONTEXT *skb, const struct packet *p,
				       struct input *in, __u32 at, __u32 size)
{
	__u32 used = in->used & 0x3c;
	__u32 word;

	if (!within(p, at, size))
		return false;
	in->used += size;
	if (size == 0)
		return true;
	if (size == 4 || size == 8) {
		if (used > MOST_WORDS * 4 || !nl_me_four(skb, p, at, &word))
			return false;
		*(__u32 *)(in->bytes + used) = word;
		if (size == 4)
			return true;
		if (!nl_me_four(skb, p, at + 4, &word))
			return false;
		*(__u32 *)(in->bytes + used + 4) = word;
		return true;
	}
	if (size > MOST_PART || used > MOST_WORDS * 4)
		return false;
	return load_part(skb, p, at, in->bytes + used, size);
}

static __always_inline bool meets(__u32 at, __u32 size, __u32 from, __u32 to)
{
	return at < to && from < at + size;
}

/* Whether offload has yet to write some of these payload bytes. */
static __always_inline bool unfinished(const struct packet *p, const struct segment *s, __u32 at,
				       __u32 size)
{
	if (p->fragment == LATER)
		return false;
	/* Of a segment only TCP's ports and numbers, or UDP's ports, are known before
	 * segmentation. */
	if (s->is)
		return at + size > (p->protocol == TCP ? 12 : 4);
	if (!s->partial)
		return false;
	switch (p->protocol) {
	case TCP:
		return meets(at, size, 16, 18);
	case UDP:
	case UDP_LITE:
		return meets(at, size, 6, 8);
	case SCTP:
		return meets(at, size, 8, 12);
	default:
		return false;
	}
}

/* Payload bytes as on the wire. */
static __always_inline bool push_payload(CONTEXT *skb, const struct packet *p,
					 const struct segment *s, struct input *in, __u32 at,
					 __u32 size)
{
	__u32 used = in->used & 0x3c, sequence;

	if (unfinished(p, s, at, size) || !push_bytes(skb, p, in, at, size))
		return false;
	if (!s->is || p->protocol != TCP)
		return true;
	/* For a segment at most the first twelve bytes, whose sequence number is advanced. */
	if (!nl_me_four(skb, p, 4, &sequence))
		return false;
	sequence = bpf_ntohl(sequence) + before(s);
#pragma unroll
	for (__u32 i = 0; i < 4; i++) {
		__u32 place = used + 4 + i - at;

		if (at <= 4 + i && 4 + i < at + size && place < INPUT)
			in->bytes[place] = sequence >> (24 - 8 * i);
	}
	return true;
}

static __always_inline bool rfc5475(CONTEXT *skb, const struct packet *p,
				    const struct segment *s, struct input *in, __u32 at, __u32 size)
{
	__u32 length;

	if (p->v6) {
		if (!payload_length(skb, p, s, &length))
			return false;
		/* The header's length field counts extension headers, too. */
		length += p->transport - V6_HEADER;
		if (length > 0xffff)
			return false;
		push_v6(in, p, true, length);
	} else {
		push_v4(in, p, s);
	}
	return push_payload(skb, p, s, in, at, size);
}

static __always_inline bool source(CONTEXT *skb, const struct packet *p,
				   const struct segment *s, struct input *in)
{
	__u32 length;

	if (p->v6)
		return false;
	push_v4(in, p, s);
	if (!push_payload(skb, p, s, in, 4, 4) || !payload_length(skb, p, s, &length))
		return false;
	length += p->transport;
	push(in, bpf_htonl(length));
	return length <= 0xffff;
}

/* A part of the data behind `header`, padded with zeros. */
static __always_inline bool push_data(CONTEXT *skb, const struct packet *p,
				      const struct segment *s, struct input *in, __u32 header,
				      __u32 length)
{
	__u32 size = nl_me_options.part_size, from = header + nl_me_options.part_offset;
	__u32 has = length > from ? length - from : 0, used = in->used;

	if (has == 0 || size == 0) {
		in->used = used + size;
		return true;
	}
	from += before(s);
	if (has >= size)
		return push_bytes(skb, p, in, from, size);
	in->used = used + size;
	used &= 0x3c;
	if (!within(p, from, has) || has > MOST_PART || used > MOST_WORDS * 4)
		return false;
	return load_part(skb, p, from, in->bytes + used, has);
}

static __always_inline bool portable_tcp(CONTEXT *skb, const struct packet *p,
					 const struct segment *s, struct input *in)
{
	__u32 sequence, acknowledged;

	if (!nl_me_four(skb, p, 4, &sequence) || !nl_me_four(skb, p, 8, &acknowledged))
		return false;
	push(in, bpf_htonl(bpf_ntohl(sequence) + before(s)));
	push(in, acknowledged);
	return true;
}

static __always_inline bool portable(CONTEXT *skb, const struct packet *p,
				     const struct segment *s, struct input *in)
{
	bool later = p->fragment == LATER;
	bool icmp = (p->protocol == ICMP || p->protocol == ICMPV6) && !later;
	__u32 length, word = 0, header = 0;

	if (p->v6) {
		push_v6(in, p, false, 0);
		if (p->fragment != WHOLE) {
			push(in, p->fragment_id);
			push(in, bpf_htonl((__u32)bpf_ntohs(p->fragment_word) << 16));
		}
	} else {
		push_v4(in, p, s);
	}
	if (icmp) {
		if (!nl_me_four(skb, p, 0, &word))
			return false;
		word = bpf_htonl(bpf_ntohl(word) & 0xffff0000);
	} else if (has_ports(p->protocol) && !later) {
		if (!within(p, 0, 4))
			return false;
		word = p->v6 ? p->key.ports : p->v4.ports;
	}
	push(in, word);
	if (!payload_length(skb, p, s, &length))
		return false;
	push(in, bpf_htonl((__u32)p->protocol << 16 | length));
	if (p->protocol == TCP && !later)
		return portable_tcp(skb, p, s, in);
	if (icmp) {
		if (!nl_me_four(skb, p, 4, &word))
			return false;
		push(in, word);
	}
	if (!later)
		header = icmp || p->protocol == UDP || p->protocol == UDP_LITE ? 8 :
			 p->protocol == SCTP ? 12 : 0;
	return push_data(skb, p, s, in, header, length);
}

/* The bytes that identify packets. */
static __always_inline bool fill(CONTEXT *skb, const struct packet *p,
				 const struct segment *s, struct input *in)
{
	if (s->strange)
		return false;
	if (nl_me_options.profile == NL_ME_RFC5475)
		return rfc5475(skb, p, s, in, nl_me_options.part_offset, nl_me_options.part_size);
	if (nl_me_options.profile == NL_ME_SOURCE)
		return source(skb, p, s, in);
	return portable(skb, p, s, in);
}

#endif
