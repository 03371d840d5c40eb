/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Measurement by alternate marking: definitions shared by the programs and src/measure.rs.
 *
 * A flow is a slot, a number below `flows`. Times are nanoseconds of the chosen clock. Bank k mod
 * NL_ME_BANKS holds block k; its `block` is k + 1, or 0 if it never held one. What netloom-marking
 * specifies for banks, marks, hashes and selection applies here, too.
 */
#ifndef NETLOOM_MEASURE_H
#define NETLOOM_MEASURE_H

#include <linux/types.h>

#define NL_ME_BANKS 4
#define NL_ME_MASKS 32

#define NL_ME_TAI 0
#define NL_ME_MONOTONIC 1
/* The time stored in a frame: for tests. */
#define NL_ME_FRAME 2

#define NL_ME_ALL 1

#define NL_ME_BOB 1
#define NL_ME_IPSX 2
#define NL_ME_CRC32 3

#define NL_ME_RFC5475 0
#define NL_ME_SOURCE 1
#define NL_ME_PORTABLE 2

/* Fixed before loading. */
struct nl_me_options {
	__u64 period;
	__u64 guard;
	__u64 threshold; /* initial threshold of selection: 0 to 2^32 */
	__u32 program; /* 0 to 4 */
	__u32 clock;
	__u32 link; /* bytes before the IP header or the first tag: 14, or 0 for interfaces without */
	__u32 flows; /* slots */
	__u32 starter; /* DSCP values, not shifted */
	__u32 next;
	__u32 mask;
	__u32 delay;
	__u32 marking; /* 0: marks are only read; 1: written at egress; 2: and one packet of a block twice */
	__u32 hash; /* 0: none */
	__u32 profile;
	__u32 seed;
	__u32 part_offset;
	__u32 part_size; /* at most 32 */
	__u32 match_value;
	__u32 low_mask; /* bits of the hash that must agree, for a fixed length */
	__u32 dynamic; /* 1: the threshold falls when a table is full */
	__u32 most; /* samples kept in a table */
	__u32 pad[2];
};
_Static_assert(sizeof(struct nl_me_options) == 104, "written as thirteen words");

/* The active set of filters: generation << 32 | set << 8 | number of masks. */

/* Keys of the cache. Values: generation << 32 | slot + 1, or 0 if no filter matches. */
struct nl_me_v4 {
	__u32 src, dst; /* in network order, as all packet data */
	__u32 ports; /* source, destination */
	__u32 kind; /* protocol | 256 if it has ports */
};
_Static_assert(sizeof(struct nl_me_v4) == 16, "no holes");

/* A packet's key as filters see it, and a mask of it: netloom_marking::tables::Bytes. */
struct nl_me_key {
	__u8 family; /* 4 or 6 */
	__u8 protocol;
	__u8 has_ports;
	__u8 zero;
	__u32 ports;
	__u32 src[4], dst[4];
};
_Static_assert(sizeof(struct nl_me_key) == 40, "as netloom_marking has it");

struct nl_me_mask {
	struct nl_me_key bits;
	__u32 best; /* the lowest rank among its filters */
	__u32 pad;
};
_Static_assert(sizeof(struct nl_me_mask) == 48, "no holes");

/* Key of a filter: index of its mask, and the masked key to match. Value: slot << 32 | rank. For
 * packets that are only tallied, slot + 1 is negative. */
#define NL_ME_ASIDE 0x7fffffff
/* A bit of the slot of a flow that counts from a later block on. */
#define NL_ME_JOINED 0x40000000
struct nl_me_filter {
	__u32 mask; /* set * NL_ME_MASKS + index */
	struct nl_me_key key;
};
_Static_assert(sizeof(struct nl_me_filter) == 44, "no holes");

/* One CPU's near cache: an entry for each of this many hashes of IPv4 keys. */
#define NL_ME_NEAR 512
struct nl_me_near {
	struct nl_me_v4 key;
	__u64 value; /* as in the cache; 0: none yet */
	__u64 pad;
};
_Static_assert(sizeof(struct nl_me_near) == 32, "two a line");

/* Counters of one flow, one bank, one CPU. Times are relative to the block's origin. */
struct nl_me_count {
	__u64 block;
	__u64 packets, sum, first, last;
	__u64 bytes;
	__u64 late;
	__u64 unhashable;
	__u64 double_packets, double_sum, double_first, double_last;
	__u64 pad[4];
};
_Static_assert(sizeof(struct nl_me_count) == 128, "two lines");

/* The same for IPv6, in a separate map. */
#define NL_ME_NEAR6 256
struct nl_me_near6 {
	struct nl_me_key key;
	__u64 value;
	__u64 pad[2];
} __attribute__((aligned(8)));
_Static_assert(sizeof(struct nl_me_near6) == 64, "a line");

struct nl_me_nears6 {
	struct nl_me_near6 at[NL_ME_NEAR6];
};

/* One CPU's words. */
struct nl_me_cpu {
	__u64 other; /* frames that are not IP or have incomplete headers */
	__u64 unmatched; /* frames of no flow */
	__u64 unmarked; /* packets of a flow without either mark */
	__u64 outside; /* packets whose mark belongs to no block that can be counted */
	__u64 searched; /* frames whose flow was not in the cache */
	__u64 overflow; /* of these, without room there */
	__u64 unwritten; /* packets that could not be marked */
	__u64 tick; /* when `time` was read */
	__u64 time;
	__u64 aside; /* packets that are only tallied */
	__u64 pad[6];
	struct nl_me_near near[NL_ME_NEAR];
};
_Static_assert(sizeof(struct nl_me_cpu) == 128 + 32 * NL_ME_NEAR, "below what a CPU's value may have");

/* By slot of such a flow: the first block that counts there, + 1, and the slot of earlier packets. */
struct nl_me_join {
	__u64 from;
	__u32 before;
	__u32 pad;
};
_Static_assert(sizeof(struct nl_me_join) == 16, "two words");

struct nl_me_sample {
	__u32 hash;
	__u32 identity;
	__u64 time;
};

/* Samples of one flow, one bank, one CPU; the header, then `most` + 1 samples. */
struct nl_me_table {
	__u64 block;
	__u64 threshold;
	__u32 used;
	__u32 crowded; /* 1: more samples of one hash than fit */
	__u64 unkept; /* selected, but without room */
	struct nl_me_sample samples[];
};
_Static_assert(sizeof(struct nl_me_table) == 32, "no holes");

#endif
