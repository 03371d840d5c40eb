/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * A token bucket without tokens: one word, the instant at which the bucket is full again
 * (the generic cell rate algorithm, ITU-T I.371). It has room while that instant lies less than the
 * burst ahead; what passes moves it on by its cost. The last frame of a burst may so overdraw, and
 * what it overdrew is paid before the next one passes: rates are exact in the long run, and a frame
 * larger than the burst is not stuck for ever. Instants may wrap round.
 */
#ifndef NETLOOM_BUCKET_H
#define NETLOOM_BUCKET_H

#include <netloom/kernel.h>

/* How often a lost race is tried again before the cost is added without looking. */
#define NL_BUCKET_TRIES 8

static __always_inline bool nl_bucket_room(const __u64 *full_at, __u64 now, __u64 burst)
{
	return (__s64)(NL_READ(*full_at) - now) < (__s64)burst;
}

/* Takes `cost`, with `look` only where there is room. Only a bucket with room is written to then. */
static __always_inline bool nl_bucket_take(__u64 *full_at, __u64 now, __u64 burst, __u64 cost,
					   bool look)
{
	for (int i = 0; i < NL_BUCKET_TRIES; i++) {
		__u64 old = NL_READ(*full_at);
		__s64 ahead = old - now;
		__u64 from = ahead > 0 ? old : now;

		if (look && ahead >= (__s64)burst)
			return false;
		if (__sync_val_compare_and_swap(full_at, old, from + cost) == old)
			return true;
	}
	__sync_fetch_and_add(full_at, cost);
	return true;
}

#endif
