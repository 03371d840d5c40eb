/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Packet hashes (RFC 5475): BOB, IPSX, CRC-32, and the selection by them.
 */
#ifndef NETLOOM_MEASURE_HASH_H
#define NETLOOM_MEASURE_HASH_H

#include "input.bpf.h"

/* The seeds of identity and selection differ by this. */
#define IDENTITY 0x6964656eu
#define GOLDEN 0x9e3779b9u

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LITTLE(x) (x)
#else
#define LITTLE(x) __builtin_bswap32(x)
#endif

/* Indexed by the number of bytes behind a byte, and by the byte. Filled before loading. */
const volatile __u32 nl_me_crc[8][256] SEC(".rodata.crc");

/* x - y first: the compiler would add up the subtrahends, which makes each step wait for one more
 * result of the step before. */
#define LESS(x, y)                   \
	do {                         \
		x -= y;              \
		asm("" : "+w"(x));   \
	} while (0)

#define MIX(a, b, c, right_a, left_b, right_c)  \
	do {                                    \
		LESS(a, b);                     \
		a = (a - c) ^ (c >> right_a);   \
		LESS(b, c);                     \
		b = (b - a) ^ (a << left_b);    \
		LESS(c, a);                     \
		c = (c - b) ^ (b >> right_c);   \
	} while (0)

#define MIX3(a, b, c)                   \
	do {                            \
		MIX(a, b, c, 13, 8, 13); \
		MIX(a, b, c, 12, 16, 5); \
		MIX(a, b, c, 3, 10, 15); \
	} while (0)

/* A.2 of RFC 5475, in 32 bits. */
__noinline __u32 nl_me_bob(const struct input *in, __u32 initial)
{
	__u32 a = GOLDEN, b = GOLDEN, c = initial, left;

	if (!in)
		return 0;
	left = in->used;

#pragma unroll
	for (int at = 0; at <= INPUT / 12; at++) {
		__u32 third = LITTLE(in->words[at * 3 + 2]);
		bool last = left < 12;

		a += LITTLE(in->words[at * 3]);
		b += LITTLE(in->words[at * 3 + 1]);
		/* The lowest byte of the last word is the length's (RFC 5475, A.2). */
		c += last ? (third << 8) + in->used : third;
		MIX3(a, b, c);
		if (last)
			break;
		left -= 12;
	}
	return c;
}

static __always_inline __u32 ipsx_of(__u32 first, __u32 second)
{
	__u32 v1 = bpf_ntohl(first), v2 = bpf_ntohl(second), h;

	h = v1 << 8 ^ v1 >> 4 ^ v1 >> 12 ^ v1 >> 16;
	return (h ^ v2 << 6 ^ v2 << 10 ^ v2 << 14 ^ v2 >> 7) & 0xffff;
}

/* A.1: three words and the exclusive or of all whole words that follow. */
static __always_inline __u32 ipsx(const struct input *in)
{
	__u32 words = in->used / 4, rest = 0;

#pragma unroll
	for (__u32 i = 3; i < INPUT / 4; i++)
		if (i < words)
			rest ^= in->words[i];
	return ipsx_of(in->words[0] ^ in->words[1], in->words[2] ^ rest);
}

static __always_inline __u32 crc_step(__u32 crc, __u8 byte)
{
	__u32 at = crc ^ byte;

	/* Linux before 6.4 loses the bounds of a value masked before it is combined. */
	NL_OPAQUE(at);
	return crc >> 8 ^ nl_me_crc[0][at & 0xff];
}

/* Four bytes followed by `behind` bytes; the first is the lowest, and includes the sum so far. */
static __always_inline __u32 crc_part(__u32 word, int behind)
{
	return nl_me_crc[behind + 3][word & 0xff] ^ nl_me_crc[behind + 2][word >> 8 & 0xff] ^
	       nl_me_crc[behind + 1][word >> 16 & 0xff] ^ nl_me_crc[behind][word >> 24];
}

static __always_inline __u32 crc_four(__u32 word)
{
	return crc_part(word, 0);
}

static __always_inline __u32 crc_eight(__u32 word, __u32 next)
{
	return crc_part(word, 4) ^ crc_part(next, 0);
}

__noinline __u32 nl_me_crc32(const struct input *in)
{
	__u32 crc = ~0u, seed = nl_me_options.seed;

	if (!in)
		return 0;
	for (__u32 i = 0; i < INPUT; i++) {
		if (i >= in->used)
			break;
		crc = crc_step(crc, in->bytes[i]);
	}
	if (seed)
		for (int shift = 24; shift >= 0; shift -= 8)
			crc = crc_step(crc, seed >> shift);
	return ~crc;
}

/* IPSX over other than the portable bytes uses the RFC's part of the payload. */
static __always_inline bool has_own_input(void)
{
	return nl_me_options.hash == NL_ME_IPSX && nl_me_options.profile != NL_ME_PORTABLE;
}

/* The hash that selects a packet; false if it has none. */
static __always_inline bool hash(CONTEXT *skb, const struct packet *p,
				 const struct segment *s, struct input *in, __u32 *to)
{
	if (nl_me_options.hash == NL_ME_IPSX && p->v6)
		return false;
	if (has_own_input() ? s->strange || !rfc5475(skb, p, s, in, 4, 4) : !fill(skb, p, s, in))
		return false;
	*to = nl_me_options.hash == NL_ME_IPSX	? ipsx(in) :
	      nl_me_options.hash == NL_ME_CRC32 ? nl_me_crc32(in) :
						  nl_me_bob(in, nl_me_options.seed);
	return true;
}

/* The identity by which other points recognise a selected packet. */
static __always_inline bool identity(CONTEXT *skb, const struct packet *p,
				     const struct segment *s, struct input *in, __u32 *to)
{
	if (has_own_input()) {
		__builtin_memset(in, 0, sizeof(*in));
		if (!fill(skb, p, s, in))
			return false;
	}
	*to = nl_me_bob(in, nl_me_options.seed ^ IDENTITY);
	return true;
}

/* This CPU's hash input; it exceeds the stack that nested calls share. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct input);
} nl_me_input SEC(".maps");

/* The outcome for a packet. */
#define UNHASHABLE 0
#define PASSED_OVER 1
#define CHOSEN 2

/* Fills in a sample's hash and identity; returns the outcome. */
__noinline int nl_me_choose(CONTEXT *skb, const struct packet *p, const struct segment *s,
			    struct nl_me_sample *to)
{
	__u32 found, known, zero = 0;
	struct input *in = bpf_map_lookup_elem(&nl_me_input, &zero);

	if (!p || !s || !to || !in)
		return UNHASHABLE;
	__builtin_memset(in, 0, sizeof(*in));
	if (!hash(skb, p, s, in, &found))
		return UNHASHABLE;
	if ((found ^ nl_me_options.match_value) & nl_me_options.low_mask)
		return PASSED_OVER;
	if (!identity(skb, p, s, in, &known))
		return UNHASHABLE;
	to->hash = found;
	to->identity = known;
	return CHOSEN;
}

#endif
