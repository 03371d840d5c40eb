/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The quick way to a hash. For a TCP packet or segment, and a UDP packet with the usual part of its
 * data, the portable profile hashes seven words in both families. They are read once and hashed in
 * registers, without a call. All others go through hash.bpf.h, with the same result.
 */
#ifndef NETLOOM_MEASURE_QUICK_H
#define NETLOOM_MEASURE_QUICK_H

#include "hash.bpf.h"

#define WORDS 7

/* A packet's words, or the first segment's, from which the other segments' are derived. */
struct quick {
	__u32 words[WORDS];
	__u32 segment[WORDS]; /* of the current one */
	__u32 header; /* bytes of the segments' transport header */
	__u32 data; /* bytes of data in all segments */
};

/* A super-frame's words, on this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct quick);
} nl_me_quick SEC(".maps");

static __always_inline bool is_quick(const struct packet *p, const struct segment *s)
{
	if (nl_me_options.profile != NL_ME_PORTABLE || p->fragment != WHOLE || s->strange)
		return false;
	return p->protocol == TCP ||
	       (p->protocol == UDP && !s->is && !nl_me_options.part_offset &&
		nl_me_options.part_size == 8);
}

/* Reads the words; false if they are not all in the first part. */
static __always_inline bool read_quick(CONTEXT *skb, const struct packet *p,
				       const struct segment *s, struct quick *q)
{
	__u32 at = p->l3 + p->transport, from = p->protocol == TCP ? 4 : 8;
	__u32 length = p->end - p->transport;
	void *data, *end;

	if (p->end < p->transport || !within(p, 0, 16) || at >= NEAR)
		return false;
	data = (void *)(long)skb->data + (at & NEAR);
	end = (void *)(long)skb->data_end;
	if (data + 16 > end)
		return false;
	q->words[5] = *(__u32 *)(data + from);
	q->words[6] = *(__u32 *)(data + from + 4);
	if (s->is) {
		q->header = (*(__u8 *)(data + 12) >> 4) * 4;
		if (length < q->header)
			return false;
		q->data = length - q->header;
		length = q->header + (q->data < s->size ? q->data : s->size);
	}
	if (length > 0xffff)
		return false;
	if (p->v6) {
		v6_words(p, q->words);
		q->words[3] = p->key.ports;
	} else {
		q->words[0] = p->word;
		q->words[1] = p->v4.src;
		q->words[2] = p->v4.dst;
		q->words[3] = p->v4.ports;
	}
	q->words[4] = bpf_htonl((__u32)p->protocol << 16 | length);
	return true;
}

/* Derives the words of a segment; false if there is no such segment. */
static __always_inline bool advance(const struct packet *p, const struct segment *s,
				    struct quick *q)
{
	__u32 ahead = before(s), left, first = bpf_ntohl(q->words[0]), *words = q->segment;

	if (q->data < ahead)
		return false;
	left = q->data - ahead;
	left = q->header + (left < s->size ? left : s->size);
	__builtin_memcpy(words, q->words, sizeof(q->words));
	if (!p->v6 && !s->fixed_id)
		words[0] = bpf_htonl(((first >> 16) + s->index) << 16 | (first & 0xffff));
	words[4] = bpf_htonl((__u32)p->protocol << 16 | left);
	words[5] = bpf_htonl(bpf_ntohl(q->words[5]) + ahead);
	return left <= 0xffff;
}

static __always_inline __u32 bob_of_words(const __u32 *words, __u32 initial)
{
	__u32 a = GOLDEN, b = GOLDEN, c = initial;

	a += LITTLE(words[0]);
	b += LITTLE(words[1]);
	c += LITTLE(words[2]);
	MIX3(a, b, c);
	a += LITTLE(words[3]);
	b += LITTLE(words[4]);
	c += LITTLE(words[5]);
	MIX3(a, b, c);
	a += LITTLE(words[6]);
	c += WORDS * 4;
	MIX3(a, b, c);
	return c;
}

static __always_inline __u32 ipsx_of_words(const __u32 *words)
{
	return ipsx_of(words[0] ^ words[1], words[2] ^ words[3] ^ words[4] ^ words[5] ^ words[6]);
}

static __always_inline __u32 crc32_of_words(const __u32 *words)
{
	__u32 crc = ~0u, seed = nl_me_options.seed;

	crc = crc_eight(crc ^ LITTLE(words[0]), LITTLE(words[1]));
	crc = crc_eight(crc ^ LITTLE(words[2]), LITTLE(words[3]));
	crc = crc_eight(crc ^ LITTLE(words[4]), LITTLE(words[5]));
	if (seed)
		crc = crc_eight(crc ^ LITTLE(words[6]), __builtin_bswap32(seed));
	else
		crc = crc_four(crc ^ LITTLE(words[6]));
	return ~crc;
}

static __always_inline __u32 hash_of_words(const __u32 *words)
{
	return nl_me_options.hash == NL_ME_IPSX	 ? ipsx_of_words(words) :
	       nl_me_options.hash == NL_ME_CRC32 ? crc32_of_words(words) :
						   bob_of_words(words, nl_me_options.seed);
}

/* The same as nl_me_choose. */
static __always_inline int choose_quick(bool v6, const __u32 *words, struct nl_me_sample *to)
{
	__u32 found;

	if (nl_me_options.hash == NL_ME_IPSX && v6)
		return UNHASHABLE;
	found = hash_of_words(words);
	if ((found ^ nl_me_options.match_value) & nl_me_options.low_mask)
		return PASSED_OVER;
	to->hash = found;
	to->identity = bob_of_words(words, nl_me_options.seed ^ IDENTITY);
	return CHOSEN;
}

#endif
