/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Flood protection: map keys and values, as src/protect.rs reads and writes them.
 *
 * Times are ticks of 1/64 ns, so that short frames at high rates are not rounded away.
 */
#ifndef NETLOOM_PROTECT_H
#define NETLOOM_PROTECT_H

#include <linux/types.h>

#define NL_PR_TICK_BITS 6
/* Costs are in 2^-20 ticks. */
#define NL_PR_COST_BITS 20
/* A window for counting senders: 2^30 ns, about a second. */
#define NL_PR_WINDOW_BITS 30

/* Where a node is protected: at its own interface, where frames come in; at a switch's port, where they leave, and where the interface
 * by which they came in tells who sent them; or at such a port where that may be the switch's own process. */
#define NL_PR_AT_NODE 0
#define NL_PR_AT_PORT 1
#define NL_PR_AT_PLUG 2

/* nl_pr_ports: interface index -> the node that its frames are for. */
struct nl_pr_port {
	__u32 node;
	__u32 at;
};
_Static_assert(sizeof(struct nl_pr_port) == 8, "read as two half words");

/* Frames for finding neighbours beyond a sender's share: one in so long, and at most a second's worth at once. */
#define NL_PR_FINDING_NS 100000000ULL
#define NL_PR_FINDING_BURST_NS 1000000000ULL
/* RFC 4443 and RFC 4861, section 4. */
#define NL_PR_ICMPV6 58
#define NL_PR_SOLICITATION 135
#define NL_PR_ADVERTISEMENT 136

/* nl_pr_rates: node -> its budget; written only by user space. A cost of 0: not limited. */
struct nl_pr_rate {
	__u64 packet;       /* cost of a frame */
	__u64 byte;         /* cost of a byte */
	__u64 packet_burst; /* ticks */
	__u64 byte_burst;   /* ticks */
	__u64 version;      /* changes with every budget */
	__u64 step_bits;    /* buckets fill every 2^step_bits ns; below 32 */
};
_Static_assert(sizeof(struct nl_pr_rate) == 48, "read as six words");

/* A bucket of frames and one of bytes: the instants, in ticks, at which they are full again. */
struct nl_pr_buckets {
	__u64 packets;
	__u64 bytes;
	__u64 version; /* of the budget last charged */
};

/* nl_pr_state: node -> state shared by all its senders. */
struct nl_pr_state {
	struct nl_pr_buckets buckets;
	__u64 window; /* the window that `senders` counts */
	__u64 senders;
	__u64 senders_before;
};
_Static_assert(sizeof(struct nl_pr_state) == 48, "read as six words");

/* nl_pr_gates: interface index -> the switch by which frames that enter there go on. */
struct nl_pr_gate {
	__u32 segment;
	__u32 none;
};
_Static_assert(sizeof(struct nl_pr_gate) == 8, "read as two half words");

/* Key of nl_pr_owners: an address of a protected node on a switch. */
struct nl_pr_address {
	__u8 mac[6];
	__u16 segment;
};
_Static_assert(sizeof(struct nl_pr_address) == 8, "written as six bytes and a half word");

/* nl_pr_owners: address -> the node that it belongs to. */
struct nl_pr_owner {
	__u32 node;
	__u32 ifindex; /* the port at which the node's budget is charged */
};
_Static_assert(sizeof(struct nl_pr_owner) == 8, "read as two half words");

/* Key of nl_pr_senders. */
struct nl_pr_pair {
	__u32 node;
	__u32 sender; /* the ingress interface of its frames, the end of their source address, or 0 */
};
_Static_assert(sizeof(struct nl_pr_pair) == 8, "read as two half words");

/* nl_pr_senders: counters of a sender's frames, and its share of the budget. */
struct nl_pr_sender {
	__u64 passed;
	__u64 passed_bytes;
	__u64 dropped;
	__u64 dropped_bytes;
	struct nl_pr_buckets buckets;
	__u64 window; /* the last window in which it sent */
	__u64 excess; /* the last window in which frames of it were dropped */
};
_Static_assert(sizeof(struct nl_pr_sender) == 72, "read as nine words");

#endif
