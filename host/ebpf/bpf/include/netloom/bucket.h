/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * A token bucket without tokens: one word, the instant at which the bucket is full again (the
 * generic cell rate algorithm, ITU-T I.371). A frame passes if that instant plus its cost is at
 * most the burst ahead of now, and moves it by its cost. A frame that costs more than the burst
 * passes when the bucket is full, and is paid for before the next one passes. Instants may wrap.
 */
#ifndef NETLOOM_BUCKET_H
#define NETLOOM_BUCKET_H

#include <netloom/kernel.h>

/* Retries after a lost race, before the cost is added without looking. */
#define NL_BUCKET_TRIES 8

/* How far the bucket is from full, in time. */
static __always_inline __u64 nl_bucket_owes(__u64 full_at, __u64 now)
{
	__s64 ahead = full_at - now;

	return ahead > 0 ? ahead : 0;
}

static __always_inline bool nl_bucket_has(__u64 owes, __u64 burst, __u64 cost)
{
	return owes + (cost < burst ? cost : burst) <= burst;
}

static __always_inline bool nl_bucket_room(const __u64 *full_at, __u64 now, __u64 burst, __u64 cost)
{
	return nl_bucket_has(nl_bucket_owes(NL_READ(*full_at), now), burst, cost);
}

/* Takes `cost`; with `look`, only if there is room. A bucket without room is then not written to. */
static __always_inline bool nl_bucket_take(__u64 *full_at, __u64 now, __u64 burst, __u64 cost,
					   bool look)
{
	for (int i = 0; i < NL_BUCKET_TRIES; i++) {
		__u64 old = NL_READ(*full_at);
		__u64 owes = nl_bucket_owes(old, now);

		if (look && !nl_bucket_has(owes, burst, cost))
			return false;
		if (__sync_val_compare_and_swap(full_at, old, now + owes + cost) == old)
			return true;
	}
	/* Others took room in between; this cost is charged all the same, so the rate holds. */
	__sync_fetch_and_add(full_at, cost);
	return true;
}

/* Reduces the debt to at most `most`. */
static __always_inline void nl_bucket_cut(__u64 *full_at, __u64 now, __u64 most)
{
	__u64 old = NL_READ(*full_at);

	if (nl_bucket_owes(old, now) > most)
		__sync_val_compare_and_swap(full_at, old, now + most);
}

#endif
