/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Socket limits: map values, as src/sockets.rs reads them.
 */
#ifndef NETLOOM_SOCKETS_H
#define NETLOOM_SOCKETS_H

#include <linux/types.h>

/* Levels of groups considered below the lab's. */
#define NL_SOCK_DEPTH 8
/* Greatest depth of the lab's own group. */
#define NL_SOCK_LAB_DEPTH 24

/* nl_sock_counts: id of a group -> its counters. The entry of id 0, which no group has, always
 * exists and stands for groups without an entry. */
struct nl_sock_group {
	__u64 epoch;     /* changes each time counting starts; written only by user space */
	__u64 open;      /* open sockets made in the group */
	__u64 peak;      /* the most open at once */
	__u64 refused;   /* sockets refused because this group was full */
	__u64 uncounted; /* uncounted sockets closed by processes of the group */
};
_Static_assert(sizeof(struct nl_sock_group) == 40, "read as five words");

/* The mark of a counted socket: where it was counted, outermost group first. */
struct nl_sock_mark {
	__u64 counted;
	struct {
		__u64 group; /* 0: not counted at this level */
		__u64 epoch;
	} at[NL_SOCK_DEPTH];
};

#endif
