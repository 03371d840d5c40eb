/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Wires put into running links: map keys and values, as src/wire.rs reads and writes them.
 */
#ifndef NETLOOM_WIRE_H
#define NETLOOM_WIRE_H

#include <linux/types.h>

/* The third place, beside the two directions of an interface: a tap, for frames written to it. */
#define NL_WIRE_TAP 2

/* Key of nl_wire_ways. */
struct nl_wire_place {
	__u32 ifindex;
	__u32 at; /* NL_INGRESS, NL_EGRESS or NL_WIRE_TAP */
};
_Static_assert(sizeof(struct nl_wire_place) == 8, "read as two half words");

/* nl_wire_ways: where frames at a place go. */
struct nl_wire_way {
	__u32 to; /* the tap, or for a tap the interface; 0: continue without a wire */
	__u32 at; /* for a tap: the direction at the interface */
	__u64 own; /* the interface's MAC as seen in frames for it, first byte lowest; 0: not seen */
};
_Static_assert(sizeof(struct nl_wire_way) == 16, "read as two words");

#endif
