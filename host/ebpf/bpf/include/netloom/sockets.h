/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Socket limits: values of the maps, as src/sockets.rs reads them.
 */
#ifndef NETLOOM_SOCKETS_H
#define NETLOOM_SOCKETS_H

#include <linux/types.h>

/* How many levels of groups below the lab's are looked at. */
#define NL_SOCK_DEPTH 8
/* How deep the lab's own group may lie. */
#define NL_SOCK_LAB_DEPTH 24

/* nl_sock_counts: id of a group -> what was counted. The entry of id 0, which no group has, is there from
 * the start and stands for groups without one. */
struct nl_sock_group {
	__u64 epoch;     /* differs each time that counting starts; written by user space only */
	__u64 open;      /* sockets that were made in the group and are not closed */
	__u64 peak;      /* most of them at once */
	__u64 refused;   /* sockets refused because this group was full */
	__u64 uncounted; /* closed by processes of the group without having been counted */
};
_Static_assert(sizeof(struct nl_sock_group) == 40, "read as five words");

/* What a counted socket carries: where it was counted, outermost group first. */
struct nl_sock_mark {
	__u64 counted;
	struct {
		__u64 group; /* 0: not counted at this level */
		__u64 epoch;
	} at[NL_SOCK_DEPTH];
};

#endif
