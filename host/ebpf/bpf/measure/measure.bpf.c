/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Measures flows at an interface by alternate marking (RFC 9341): counts packets by block, with
 * their times or with samples of them, and writes marks at egress. Must equal netloom_marking; the
 * layout of the maps is in netloom/measure.h. Frames always continue.
 *
 * A packet's block follows from its mark and the time, so nothing is switched between blocks. A program
 * that keeps few times reads the clock once a tick for the block, and again only for those times.
 * Frames on one CPU are handled in sequence, because soft interrupts are off: counters are plain words.
 */
#include <netloom/kernel.h>
#include <netloom/measure.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct nl_me_options nl_me_options SEC(".rodata.options");

#include "packet.bpf.h"
#include "filter.bpf.h"
#include "hash.bpf.h"
#include "quick.bpf.h"
#include "samples.bpf.h"
#include "offload.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_me_cpu);
} nl_me_cpus SEC(".maps");

/* Indexed by slot * NL_ME_BANKS + bank. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_me_count);
} nl_me_counts SEC(".maps");

/* Indexed by slot: the last block with a packet marked twice, + 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} nl_me_twice SEC(".maps");

/* Indexed by slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_me_join);
} nl_me_joins SEC(".maps");

/* The current block, or an earlier one: saves a division. Any value is correct. */
__u64 nl_me_hint;

/* When block 0 begins: set once all points are attached. A separate map of one word. */
__u64 nl_me_start SEC(".data.start");

/* The properties of a flow's frame. */
struct seen {
	__s64 time; /* since block 0 began; before it, less than 0 */
	__u64 block; /* + 1 */
	__u32 flow;
	__u32 packets;
	__u64 bytes;
};

static __always_inline __u64 exact_time(CONTEXT *skb)
{
	if (nl_me_options.clock == NL_ME_FRAME)
		return frame_time(skb);
	return nl_me_options.clock == NL_ME_TAI ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
}

/* A time within this tick and not after now. Reading the clock costs more than anything else, so it
 * is read once a tick; the tick count is a word in memory. */
static __always_inline __u64 coarse_time(CONTEXT *skb, struct nl_me_cpu *cpu)
{
	__u64 tick;

	if (nl_me_options.clock == NL_ME_FRAME)
		return frame_time(skb);
	tick = bpf_jiffies64();
	if (cpu->tick != tick) {
		cpu->tick = tick;
		cpu->time = exact_time(skb);
	}
	return cpu->time;
}

/* The current block at a time since the start, and the time since it began. */
static __always_inline __u64 block_at(__u64 since, __u64 *within)
{
	__u64 period = nl_me_options.period, block = NL_READ(nl_me_hint);

	*within = since - block * period;
	if (*within < period)
		return block;
	block = since / period;
	*within = since - block * period;
	NL_WRITE(nl_me_hint, block);
	return block;
}

/* The block + 1 of a packet with this colour (0: that of even blocks), or 0. `time` becomes the time since
 * the block's origin, half a period before it began. */
static __always_inline __u64 block_of(const struct seen *s, __u32 colour, __u64 *time)
{
	__u64 period = nl_me_options.period, within, block;

	*time = s->time + period / 2;
	/* The marker's clock may be ahead: block 0 counts from half a period before its begin. */
	if (s->time < 0)
		return (__s64)*time >= 0 && !colour;
	block = block_at(s->time, &within);
	*time = within + period / 2;
	if ((block & 1) == colour)
		return block + 1;
	/* The other colour: in a period's first half a late packet of the block before, in its
	 * second an early one of the next (RFC 9341, figure 4). */
	if (within < period - period / 2) {
		*time += period;
		return block;
	}
	*time -= period;
	return block + 2;
}

#ifndef NL_ME_XDP
/* Writes the byte with DSCP and ECN, and updates the IPv4 checksum (RFC 1624). A header that can be
 * read in place can be written there: the kernel unshares shared headers before the program runs,
 * and drops a frame for which it has no memory to do so. */
static __noinline int write_class(CONTEXT *skb, const struct packet *p, __u8 class)
{
	void *ip = (void *)(long)skb->data + (p->l3 & NEAR), *end = (void *)(long)skb->data_end;
	__u32 word, was, sum;
	__u64 change;

	if (ip + V4_HEADER > end)
		return -1;
	if (p->v6) {
		was = *(__u32 *)ip;
		word = bpf_htonl((bpf_ntohl(was) & ~(0xffU << 20)) | (__u32)class << 20);
		*(__u32 *)ip = word;
		/* Updates a card's sum of the whole frame, if there is one. */
		change = (__u64)~was + word;
		bpf_csum_update(skb, (__u32)change + (__u32)(change >> 32));
		return 0;
	}
	/* Equation 3 of the RFC: ~(~HC + ~m + m'). */
	sum = (__u16)~*(__u16 *)(ip + 10) + (__u16)~*(__u16 *)ip;
	*(__u8 *)(ip + 1) = class;
	sum += *(__u16 *)ip;
	sum = (sum & 0xffff) + (sum >> 16);
	*(__u16 *)(ip + 10) = ~((sum & 0xffff) + (sum >> 16));
	return 0;
}

/* Whether this packet is the block's one to mark twice. */
static __always_inline bool twice(__u32 flow, __u64 block, __u64 within)
{
	__u64 *last, old;

	if (nl_me_options.marking < 2 || within < nl_me_options.guard)
		return false;
	last = bpf_map_lookup_elem(&nl_me_twice, &flow);
	if (!last)
		return false;
	/* Read first, so that only a block's first packets pay for an atomic exchange. */
	old = NL_READ(*last);
	return old != block + 1 && __sync_val_compare_and_swap(last, old, block + 1) == old;
}

/* Gives the packet the mark of the current block. */
static __always_inline void mark(CONTEXT *skb, struct packet *p, const struct seen *s,
				 struct nl_me_cpu *cpu)
{
	__u64 block, within;
	__u32 value;
	__u8 class;

	if (s->time < 0)
		return;
	block = block_at(s->time, &within);
	value = block & 1 ? nl_me_options.next : nl_me_options.starter;
	if (twice(s->flow, block, within))
		value |= nl_me_options.delay;
	class = (p->class & ~(nl_me_options.mask << 2)) | value << 2;
	if (class == p->class)
		return;
	if (write_class(skb, p, class))
		cpu->unwritten += s->packets;
	else
		p->class = class;
}
#endif

#ifndef NL_ME_XDP
/* Counts the packets of a super-frame, and their bytes on the wire. */
static __always_inline void count_segments(CONTEXT *skb, const struct packet *p,
					   struct seen *s)
{
	__u32 header = 8, word, headers, data;

	s->packets = frame_segments(skb);
	if (p->protocol == TCP) {
		if (!nl_me_four(skb, p, 12, &word))
			return;
		header = (bpf_ntohl(word) >> 28) * 4;
	} else if (p->protocol != UDP) {
		return;
	}
	headers = p->l3 + p->transport + header;
	data = p->l3 + p->has > headers ? p->l3 + p->has - headers : 0;
	/* The sender of a super-frame may leave its segment count to the kernel, which sets it only after us. */
	if (!s->packets)
		s->packets = (data + frame_segment_size(skb) - 1) / frame_segment_size(skb);
	if (s->packets > 1)
		s->bytes += (__u64)(s->packets - 1) * (headers + frame_tag(skb));
}
#endif

static __always_inline void count_frame(CONTEXT *skb, const struct packet *p,
					struct seen *s)
{
	s->packets = 1;
	s->bytes = p->l3 + p->has + frame_tag(skb);
#ifndef NL_ME_XDP
	if (frame_segment_size(skb)) {
		count_segments(skb, p, s);
		if (!s->packets)
			s->packets = 1;
	}
#endif
}

static __always_inline void tally(__u64 *packets, __u64 *sum, __u64 *first, __u64 *last, __u64 time,
				  __u64 count)
{
	*packets += count;
	*sum += time * count;
	if (time < *first)
		*first = time;
	if (time > *last)
		*last = time;
}

/* The bank of this block, or NULL if it holds a later one. */
static __always_inline struct nl_me_count *bank(const struct seen *s)
{
	__u32 index = s->flow * NL_ME_BANKS + ((s->block - 1) & (NL_ME_BANKS - 1));
	struct nl_me_count *count = bpf_map_lookup_elem(&nl_me_counts, &index);

	if (!count || count->block > s->block)
		return NULL;
	if (count->block < s->block) {
		__builtin_memset(count, 0, sizeof(*count));
		count->first = ~0ULL;
		count->double_first = ~0ULL;
		count->block = s->block;
	}
	return count;
}

/* Keeps a sample; the time is read for a frame's first one. */
static __noinline int keep_sample(CONTEXT *skb, __u32 flow, __u64 block, struct nl_me_sample *sample)
{
	__u32 index = bpf_get_smp_processor_id() * nl_me_options.flows + flow;

	if (!sample->time)
		sample->time = exact_time(skb);
	keep(index * NL_ME_BANKS + ((block - 1) & (NL_ME_BANKS - 1)), block, sample);
	return 0;
}

#ifndef NL_ME_XDP
/* A super-frame whose packets may be sampled. */
struct super {
	CONTEXT *skb;
	const struct packet *packet;
	struct nl_me_count *count;
	const struct seen *seen;
	struct quick *quick; /* or NULL */
	__u64 exact; /* its exact time, read for the first sample */
	struct segment segment;
};

static __noinline int choose_words(const struct packet *p, const struct quick *q,
				   struct nl_me_sample *sample)
{
	return choose_quick(p->v6, q->segment, sample);
}

static __always_inline int choose_segment(struct super *f, struct nl_me_sample *sample)
{
	if (!f->quick)
		return nl_me_choose(f->skb, f->packet, &f->segment, sample);
	if (!advance(f->packet, &f->segment, f->quick))
		return UNHASHABLE;
	return choose_words(f->packet, f->quick, sample);
}

static long sample_segment(__u32 i, struct super *f)
{
	struct nl_me_sample sample = { .time = f->exact };
	int chosen;

	f->segment.index = i;
	chosen = choose_segment(f, &sample);
	if (chosen == CHOSEN) {
		keep_sample(f->skb, f->seen->flow, f->seen->block, &sample);
		f->exact = sample.time;
	} else if (chosen == UNHASHABLE) {
		f->count->unhashable++;
	}
	return 0;
}

static __noinline int choose_segments(CONTEXT *skb, const struct packet *p,
				      struct nl_me_count *count, const struct seen *s)
{
	struct super f = { .skb = skb, .packet = p, .count = count, .seen = s };
	__u32 zero = 0;

	f.segment.is = true;
	f.segment.size = frame_segment_size(skb);
	look_at_offload(skb, p, &f.segment);
	if (is_quick(p, &f.segment)) {
		f.quick = bpf_map_lookup_elem(&nl_me_quick, &zero);
		if (f.quick && !read_quick(skb, p, &f.segment, f.quick))
			f.quick = NULL;
	}
	bpf_loop(s->packets, sample_segment, &f, 0);
	return 0;
}
#endif

/* Samples the packet of a frame if its hash selects it. A function of its own, so that the stack of what it needs is not
 * beneath that of choose_segments(): nested calls share 512 bytes. */
static __noinline int choose_packet(CONTEXT *skb, const struct packet *p,
				    struct nl_me_count *count, const struct seen *s)
{
	struct nl_me_sample sample = {};
	struct segment segment = {};
	struct quick quick;
	int chosen;

	if (nl_me_options.profile != NL_ME_PORTABLE)
		look_at_offload(skb, p, &segment);
	if (is_quick(p, &segment) && read_quick(skb, p, &segment, &quick))
		chosen = choose_quick(p->v6, quick.words, &sample);
	else
		chosen = nl_me_choose(skb, p, &segment, &sample);
	if (chosen == CHOSEN)
		keep_sample(skb, s->flow, s->block, &sample);
	else if (chosen == UNHASHABLE)
		count->unhashable++;
	return 0;
}

/* Samples those packets of a frame that their hash selects. */
static __always_inline void choose(CONTEXT *skb, const struct packet *p,
				   struct nl_me_count *count, const struct seen *s)
{
#ifndef NL_ME_XDP
	if (frame_segment_size(skb)) {
		choose_segments(skb, p, count, s);
		return;
	}
#endif
	choose_packet(skb, p, count, s);
}

/* The slot of a flow that joined later: all points switch to it with the same block. */
static __noinline __u32 joined(__u32 flow, __u64 block)
{
	__u32 slot = flow & ~NL_ME_JOINED;
	const struct nl_me_join *join = bpf_map_lookup_elem(&nl_me_joins, &slot);

	return join && block < join->from ? join->before : slot;
}

/* Counts a marked frame. */
static __always_inline void count(CONTEXT *skb, const struct packet *p, struct seen *s,
				  struct nl_me_cpu *cpu, __u32 colour, bool is_double)
{
	__u64 period = nl_me_options.period, time;
	struct nl_me_count *count;

	s->block = block_of(s, colour, &time);
	if (s->flow & NL_ME_JOINED)
		s->flow = joined(s->flow, s->block);
	count = s->block ? bank(s) : NULL;
	if (!count) {
		cpu->outside += s->packets;
		return;
	}
	/* User space reads the bank once the guard time is over: a later count would be lost
	 * unseen. */
	if (time > period / 2 + period + nl_me_options.guard) {
		count->late += s->packets;
		return;
	}
	count->bytes += s->bytes;
	if (nl_me_options.program == NL_ME_ALL)
		tally(&count->packets, &count->sum, &count->first, &count->last, time, s->packets);
	else
		count->packets += s->packets;
	if (is_double) {
		if (nl_me_options.program != NL_ME_ALL)
			time += exact_time(skb) - NL_READ(nl_me_start) - s->time;
		tally(&count->double_packets, &count->double_sum, &count->double_first,
		      &count->double_last, time, s->packets);
	}
	if (nl_me_options.hash)
		choose(skb, p, count, s);
}

static __always_inline void see(CONTEXT *skb, struct packet *p, struct nl_me_cpu *cpu,
				__u32 flow, bool egress)
{
	struct seen s = { .flow = flow };
	__u32 dscp, colour, delay = nl_me_options.delay;
	bool is_double;

	count_frame(skb, p, &s);
	s.time = nl_me_options.program == NL_ME_ALL ? exact_time(skb) : coarse_time(skb, cpu);
	s.time -= NL_READ(nl_me_start);
#ifndef NL_ME_XDP
	if (egress && nl_me_options.marking)
		mark(skb, p, &s, cpu);
#endif
	dscp = p->class >> 2 & nl_me_options.mask;
	is_double = delay && (dscp & delay) == delay;
	if (is_double)
		dscp &= ~delay;
	colour = dscp == nl_me_options.next;
	if (colour || dscp == nl_me_options.starter)
		count(skb, p, &s, cpu, colour, is_double);
	else
		cpu->unmarked += s.packets;
}

/* The packets of a frame that matches no flow but a filter that only tallies. */
static __noinline __u32 set_aside(CONTEXT *skb, const struct packet *p)
{
	struct seen s = {};

	count_frame(skb, p, &s);
	return s.packets;
}

static __always_inline void measure(CONTEXT *skb, bool egress)
{
	struct packet p = {};
	struct nl_me_cpu *cpu;
	__u32 zero = 0, slot;

	if (!nl_me_options.program)
		return;
	cpu = bpf_map_lookup_elem(&nl_me_cpus, &zero);
	if (!cpu)
		return;
	if (!read_frame(skb, &p)) {
		cpu->other++;
		return;
	}
	slot = classify(&p, cpu);
	if ((__s32)slot > 0)
		see(skb, &p, cpu, slot - 1, egress);
	else if (slot)
		cpu->aside += set_aside(skb, &p);
	else
		cpu->unmatched++;
}

#ifdef NL_ME_XDP
/* Also takes frames of several parts. */
SEC("xdp.frags")
int nl_me_xdp(struct xdp_md *frame)
{
	measure(frame, false);
	return XDP_PASS;
}
#else
SEC("tc")
int nl_me_in(struct __sk_buff *skb)
{
	measure(skb, false);
	return NL_NEXT;
}

SEC("tc")
int nl_me_eg(struct __sk_buff *skb)
{
	measure(skb, true);
	return NL_NEXT;
}
#endif
