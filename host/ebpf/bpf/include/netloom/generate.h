/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Frames made by a program: values of the maps, as src/generate.rs writes and reads them.
 */
#ifndef NETLOOM_GENERATE_H
#define NETLOOM_GENERATE_H

#include <linux/types.h>

/* Ethernet, IPv4 or IPv6, UDP, and the stamp behind them (netloom_traffic::Stamp). */
#define NL_GEN_V4_HEAD 60
#define NL_GEN_V6_HEAD 80
/* Flows differ by the source's port, of which there are so many, and then by its address. */
#define NL_GEN_FIRST_PORT 49152
#define NL_GEN_PORT_BITS 14

/* nl_gen_what: what is sent. Written before the first run, never by a program. */
struct nl_gen_what {
	__u8 head[NL_GEN_V6_HEAD]; /* what is the same in all frames; the rest of it is zero */
	__u32 constant; /* the sum of what is the same and under the checksum */
	__u32 source; /* the last 32 bits of the first flow's source address */
	__u32 flows;
	__u32 lengths; /* entries of nl_gen_lengths */
	__u32 longest; /* the length of the frame that the kernel gives */
	__u32 clock_every; /* frames for which one look at the clock does; 0: all of a run */
};
_Static_assert(sizeof(struct nl_gen_what) == 104, "written as 13 words");

/* nl_gen_run: how far it is. Written by user space between runs. */
struct nl_gen_run {
	__u64 left; /* frames to be made yet */
	__u64 next; /* the sequence number of the next */
	__u64 flow; /* of the next */
	__u64 length; /* the entry of nl_gen_lengths that the next has */
	__u64 clock_offset; /* from CLOCK_MONOTONIC to Unix time, modulo 2^64 */
	__u64 clock_left; /* frames until the next look at the clock */
	__u64 time; /* what the clock told, as Unix time in nanoseconds */
	__u64 bytes; /* of all frames made, without check sequence */
};
_Static_assert(sizeof(struct nl_gen_run) == 64, "read as 8 words");

/* nl_gen_took: what the interface took, and who sends, by which its frames are known. */
struct nl_gen_took {
	__u64 taken;
	__u64 refused;
	__u64 thread; /* process and thread, as in the sender's process namespace */
	__u64 pidns_dev; /* that namespace */
	__u64 pidns_inode;
	__u64 ifindex;
};
_Static_assert(sizeof(struct nl_gen_took) == 48, "read as 6 words");

#endif
