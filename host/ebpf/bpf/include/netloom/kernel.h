/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Kernel definitions for our programs, and those that older user-space headers lack.
 */
#ifndef NETLOOM_KERNEL_H
#define NETLOOM_KERNEL_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* Verdicts shared by tcx and cls_bpf: next program, drop. */
#define NL_NEXT (-1)
#define NL_DROP 2

/* Directions as seen by an interface; the values of netloom_ebpf::Direction. */
#define NL_INGRESS 0
#define NL_EGRESS 1

/* Mark of frames coming back from a wire, until they reach the interface. */
#define NL_WIRE_MARK 0x6e6c7772
/* Mark of frame copies that are delivered on their sender's CPU time, until they are looked at
 * again. A node can set neither mark: marks do not leave a network namespace. */
#define NL_OWN_TIME_MARK 0x6e6c6f74

/* Accesses that the compiler must not tear, repeat or cache. */
#define NL_READ(x) (*(const volatile typeof(x) *)&(x))
#define NL_WRITE(x, value) (*(volatile typeof(x) *)&(x) = (value))

/* Hides a value's origin from the compiler, so that it keeps the bound checks that the verifier needs. */
#define NL_OPAQUE(x) asm volatile("" : "+r"(x))

/* Whether 1 <= *n <= most. Compilers join such bounds to one comparison of another register, and the verifier learns of
 * "not 0" no lower bound, before Linux 6.8: here it sees both. */
static __attribute__((always_inline)) inline bool nl_within(__u32 *n, __u32 most)
{
	__u32 less = *n - 1;

	NL_OPAQUE(less);
	if (less >= most)
		return false;
	*n = less + 1;
	return true;
}

/* Keeps calls at the ends of two branches apart: of one call for two maps the kernel makes no inline code. */
#define NL_APART() asm volatile("")

#endif
