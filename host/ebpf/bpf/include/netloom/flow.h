/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The fast path of switches: keys and values of maps, as src/flow.rs reads and writes them.
 * The flow key is that of core/pipeline/src/key.rs: 16 words in the machine's order.
 */
#ifndef NETLOOM_FLOW_H
#define NETLOOM_FLOW_H

#include <linux/types.h>

#define NL_FL_WORDS 16
/* Masks of results at a time. */
#define NL_FL_MASKS 32
/* Longest list of operations. */
#define NL_FL_LONGEST 256
/* No operation; also no mask. */
#define NL_FL_NONE 0xffffffffU
/* Bytes of headers that are looked at. */
#define NL_FL_HEAD 256
/* Words of a key that a received frame can have: all but metadata and tunnel. */
#define NL_FL_COMPARED 14
/* Results of a chunk, of which there are more as more results are kept: a power of two. */
#define NL_FL_CHUNK 4096
#define NL_FL_CHUNKS 64
/* Buckets of a chunk, a power of two, and places in a bucket. */
#define NL_FL_BUCKETS 2048
#define NL_FL_WAYS 7
/* Places of ports that are found without a hash map: a power of two. */
#define NL_FL_NEAR 1024

/* nl_fl_ports, by the index of an interface. */
struct nl_fl_port {
	__u32 number; /* NL_FL_NONE: a tap beside a port */
	/* With nl_fl_options.beside: of a port the tap that frames without a result leave by; of such a tap the
	 * port's interface. */
	__u32 beside;
	__u64 cost; /* nanoseconds that a small upcall takes of the rate; 0: no limit */
	__u64 burst; /* nanoseconds that may be saved up */
	__u64 full_at; /* state of the bucket: netloom/bucket.h */
	__u64 upcalls;
	__u64 limited; /* frames for upcalls beyond the rate */
	__u64 full; /* frames for upcalls that found no room */
	__u64 long_frames; /* longer than an upcall takes */
};
_Static_assert(sizeof(struct nl_fl_port) == 64, "read as eight words");

/* A mask of results. */
struct nl_fl_mask {
	__u64 bits[NL_FL_WORDS];
	__u8 words[NL_FL_COMPARED]; /* the numbers of its words that are not zero */
	__u8 count; /* of these */
	__u8 zero;
};

/* nl_fl_table: what all programs of a switch read. */
struct nl_fl_table {
	__u64 generation; /* results of another one do not count */
	__u32 masks; /* how many of `order` */
	__u32 room; /* for user space: results at a time */
	__u8 order[NL_FL_MASKS]; /* numbers of masks, those with most hits first */
	/* Where buckets are: 0, in nl_fl_buckets, else their first chunk in nl_fl_buckets_x and one; in the upper half
	 * how many there are, less one. */
	__u64 buckets;
	__u64 seed; /* of hashes */
	struct nl_fl_mask mask[NL_FL_MASKS];
};
_Static_assert(sizeof(struct nl_fl_table) == 64 + NL_FL_MASKS * 144, "read by words");

/* nl_fl_buckets: where results are, by a hash of their words. Each is in one of two buckets. */
struct nl_fl_bucket {
	__u64 entries[NL_FL_WAYS]; /* slot, and in the upper half a part of the hash, not zero; 0: none */
	__u64 beyond; /* results that are in their second bucket because this one was full */
};
_Static_assert(sizeof(struct nl_fl_bucket) == 64, "a line of the cache");

/* nl_fl_options. */
struct nl_fl_options {
	__u32 weak; /* accesses to memory may pass each other on this processor */
	/* Frames without a result leave by a tap beside their port, and only their beginning is told. */
	__u32 beside;
};

/* nl_fl_carried: frames of ports, of a CPU by the port's number. A super-frame counts as one. */
#define NL_FL_PORTS 256
struct nl_fl_carried {
	__u64 sent; /* by what is at the port */
	__u64 sent_bytes;
	__u64 sent_super;
	__u64 received;
	__u64 received_bytes;
	__u64 received_super;
	__u64 zero[2];
};
_Static_assert(sizeof(struct nl_fl_carried) == 64, "a line of the cache");

/* Results that need more than a list: */
#define NL_FL_PLAIN 2 /* headers without oddities, as edits do of IP and what is above */
#define NL_FL_TAGS 4 /* tags are added or removed */
#define NL_FL_ALONE 8 /* frames of one tag at most, which alone is in the key */

/* nl_fl_results: a result, by slot. */
struct nl_fl_result {
	__u64 live; /* its generation and one; 0: none */
	__u32 first; /* of its operations; NL_FL_NONE: dropped */
	__u8 flags;
	__u8 mask; /* its number */
	__u16 ttl; /* frames with a TTL up to this are upcalls; 0: none */
	__u64 words[NL_FL_COMPARED]; /* the key's bits in the mask, as the mask numbers them */
};
_Static_assert(sizeof(struct nl_fl_result) == 128, "two lines of the cache");

/* Kinds of operations: */
#define NL_FL_SEND 1 /* out of interface `argument`, that of port `needs` */
#define NL_FL_WRITE 2 /* the masked bits at offset `argument` from `base` */
#define NL_FL_DECREMENT 3 /* the TTL of IP */
#define NL_FL_PUSH 4 /* a tag of ethertype `argument` */
#define NL_FL_POP 5 /* the outermost tag; `argument`: the frame is not padded */
#define NL_FL_TAG 6 /* the masked bits of the tag, if there is one */
#define NL_FL_TAG_ADD 7 /* the same; an 802.1Q tag is added if there is none */
#define NL_FL_SAVE 8 /* remember the headers */
#define NL_FL_RESTORE 9 /* write the remembered ones */
/* Bases: */
#define NL_FL_ETHERNET 0
#define NL_FL_NETWORK 1
#define NL_FL_TRANSPORT 2
#define NL_FL_SLL 3
#define NL_FL_TLL 4
/* What a write needs, else it does nothing; also bits of `has`. */
#define NL_FL_IP 1
#define NL_FL_ARP 2 /* with an operation */
/* Checksums that cover what is written: */
#define NL_FL_SUM_IP 1
#define NL_FL_SUM_TRANSPORT 2
#define NL_FL_SUM_PSEUDO 4 /* the transport's, as part of its pseudo-header */
#define NL_FL_RECOMPUTE 8 /* none, or they do not balance: the sum of the whole frame changes */
#define NL_FL_INSIDE 16 /* not a sum: only within the IP packet */

/* nl_fl_ops: operations, each with the number of the next. */
struct nl_fl_op {
	__u8 kind;
	__u8 base;
	__u8 length;
	__u8 sums;
	__u32 argument;
	__u32 next;
	__u32 needs;
	__u64 value[2]; /* bytes in the order of the frame */
	__u64 mask[2];
};
_Static_assert(sizeof(struct nl_fl_op) == 48, "read as six words");

/* nl_fl_counts: of a chunk by CPU, and of a CPU by slot. Behind the CPUs' is what user space put down of each slot. */
struct nl_fl_count {
	__u64 packets;
	__u64 bytes;
	__u64 used; /* CLOCK_MONOTONIC_COARSE */
	__u64 zero;
};

/* nl_fl_cpus: by CPU. A run of a program is between `entered` and `left`. */
struct nl_fl_cpu {
	__u64 entered;
	__u64 left;
	__u64 exact; /* frames found by a hint */
	__u64 masked; /* frames found by a mask */
	__u64 missed;
	__u64 failed; /* frames lost because the kernel refused a change, or copies a send */
	__u64 zero[2];
	__u64 hits[NL_FL_MASKS];
};
_Static_assert(sizeof(struct nl_fl_cpu) == 64 + NL_FL_MASKS * 8, "read by words");

/* What offload left undone. */
#define NL_FL_NEEDS_SUM 1
#define NL_FL_SUM_KNOWN 2 /* else whether a sum is needed is not known */

/* Before the bytes of a frame in nl_fl_up; its tag is in place. */
struct nl_fl_upcall {
	__u32 port;
	__u32 length;
	__u32 gso_size;
	__u16 flags;
	__u8 protocol; /* of the transport; 0: none */
	__u8 v6;
	__u16 transport; /* where it begins; 0: none */
	__u16 zero;
	__u32 foreign; /* not 0: only the pipeline parses such frames */
	__u64 key[NL_FL_WORDS];
};
_Static_assert(sizeof(struct nl_fl_upcall) == 152, "before the frame");

/* Room for frames in an upcall, by size; the ring gives one of these. */
#define NL_FL_SMALL 256
#define NL_FL_MIDDLE 2048
#define NL_FL_LARGE 65792
/* Bytes of a frame that are told where it leaves by a tap: the addresses, two tags and a type, and more. */
#define NL_FL_START 26

#endif
