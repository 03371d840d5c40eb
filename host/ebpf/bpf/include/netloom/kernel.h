/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * What our programs need of the kernel and what older user-space headers lack.
 */
#ifndef NETLOOM_KERNEL_H
#define NETLOOM_KERNEL_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* Verdicts that tcx and cls_bpf share: on to the next program, drop. */
#define NL_NEXT (-1)
#define NL_DROP 2

/* Directions as seen by an interface; the values of netloom_ebpf::Direction. */
#define NL_INGRESS 0
#define NL_EGRESS 1

/* Frames that come back from a wire carry this mark until they are on the interface again. */
#define NL_WIRE_MARK 0x6e6c7772
/* Copies of frames that are delivered in their sender's time carry this one until they are looked at
 * again. A node cannot set either: marks do not leave a network namespace. */
#define NL_OWN_TIME_MARK 0x6e6c6f74

/* Fetches that the compiler must not tear, repeat or keep. */
#define NL_READ(x) (*(const volatile typeof(x) *)&(x))
#define NL_WRITE(x, value) (*(volatile typeof(x) *)&(x) = (value))

/* Keeps the compiler from knowing where a value came from, so that the verifier is shown its bounds. */
#define NL_OPAQUE(x) asm volatile("" : "+r"(x))

#endif
