/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Does a result: its operations in order. Must equal core/pipeline/src/packet.rs, byte for byte.
 * A send that is not the last is done with a copy, whose bytes later operations do not change.
 */
#ifndef NETLOOM_FLOW_ACT_H
#define NETLOOM_FLOW_ACT_H

#include "straight.bpf.h"
#include "sums.bpf.h"

/* The least bytes of an Ethernet frame without its checksum. */
#define MINIMUM 60

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_op);
} nl_fl_ops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_carried);
} nl_fl_carried SEC(".maps");

static __always_inline struct nl_fl_carried *carried(__u32 cpu, __u32 port)
{
	__u32 place = cpu * NL_FL_PORTS + port % NL_FL_PORTS;

	return bpf_map_lookup_elem(&nl_fl_carried, &place);
}

/* Counts a frame as sent by what is at its port, in the form in which it came. */
static __always_inline void carry_in(CONTEXT *ctx, const struct nl_fl_work *w, __u32 cpu)
{
	struct nl_fl_carried *c;

	if (!nl_fl_options.beside)
		return;
	c = carried(cpu, w->key[0] >> 32);
	if (!c)
		return;
	c->sent++;
	c->sent_bytes += w->total;
	c->sent_super += frame_segment(ctx) != 0;
}

/* Counts it as received at a port, in the form in which it leaves. */
static __always_inline void carry_out(CONTEXT *ctx, const struct nl_fl_work *w, __u32 cpu, __u32 port)
{
	struct nl_fl_carried *c;

	if (!nl_fl_options.beside)
		return;
	c = carried(cpu, port);
	if (!c)
		return;
	c->received++;
	c->received_bytes += w->total;
	c->received_super += frame_segment(ctx) != 0;
}

/* A list at work. */
struct run {
	CONTEXT *ctx;
	struct nl_fl_work *w;
	__u32 next;
	__u32 to; /* the last send's interface; 0: none */
	__u32 port; /* its port */
	bool failed;
	bool lost; /* a copy could not be sent */
};

#define IS(w, what) (((w)->has & (what)) == (what))

static __always_inline __u32 base_of(const struct nl_fl_work *w, __u8 base)
{
	switch (base) {
	case NL_FL_NETWORK:
		return w->network;
	case NL_FL_TRANSPORT:
		return w->transport;
	case NL_FL_SLL:
		return w->sll;
	case NL_FL_TLL:
		return w->tll;
	default:
		return 0;
	}
}

/* Writes masked bytes, if the frame has them. */
static __always_inline int write_masked(CONTEXT *ctx, struct nl_fl_work *w, const struct nl_fl_op *op)
{
	__u32 base = base_of(w, op->base), at = base + op->argument, length = op->length;
	struct change *c = &w->change;

	/* Like the pipeline: an edit of a header that the frame lacks does nothing. */
	if ((op->base != NL_FL_ETHERNET && !base) || !IS(w, op->needs))
		return 0;
	/* Bytes behind the IP packet are Ethernet's padding and belong to no header. */
	if (at + length > (op->sums & NL_FL_INSIDE ? w->end : w->total))
		return 0;
	if (nl_fl_look(ctx, w, at, length, op->sums))
		return -1;
	c->new.words[0] = (c->old.words[0] & ~op->mask[0]) | op->value[0];
	c->new.words[1] = (c->old.words[1] & ~op->mask[1]) | op->value[1];
	return nl_fl_change(ctx, w);
}

/* The TTL and the byte beside it are a word of the checksum. */
static __always_inline int decrement(CONTEXT *ctx, struct nl_fl_work *w)
{
	struct change *c = &w->change;
	__u32 ttl = w->v6 ? 1 : 0;

	if (!IS(w, NL_FL_IP))
		return 0;
	/* IPv4 bytes 8 and 9, IPv6 bytes 6 and 7. IPv6 has no header checksum that balances the
	 * change. */
	if (nl_fl_look(ctx, w, w->network + (w->v6 ? 6 : 8), 2, w->v6 ? NL_FL_RECOMPUTE : NL_FL_SUM_IP))
		return -1;
	c->new = c->old;
	c->new.bytes[ttl]--;
	return nl_fl_change(ctx, w);
}

static __always_inline void shift(struct nl_fl_work *w, __u32 by)
{
	w->total += by;
	w->network += by;
	w->transport += w->transport ? by : 0;
	w->sum += w->sum ? by : 0;
	w->sll += w->sll ? by : 0;
	w->tll += w->tll ? by : 0;
	w->end += w->end ? by : 0;
}

/* The content of the outermost tag. */
static __always_inline int read_tci(CONTEXT *ctx, __u16 *tci)
{
	/* A tag beside the buffer is the outermost one, and bpf_skb_load_bytes does not see it. */
	if (frame_tagged(ctx)) {
		*tci = frame_tci(ctx);
		return 0;
	}
	if (frame_load(ctx, TAGS_AT + 2, tci, 2))
		return -1;
	*tci = bpf_ntohs(*tci);
	return 0;
}

static __always_inline int add_tag(CONTEXT *ctx, __u16 type, __u16 tci)
{
	return bpf_skb_vlan_push(ctx, bpf_htons(type), tci);
}

static __always_inline int remove_tag(CONTEXT *ctx)
{
	return bpf_skb_vlan_pop(ctx);
}

static __always_inline int pad(CONTEXT *ctx, __u32 total)
{
	/* The kernel's length does not count a tag beside the buffer. */
	return bpf_skb_change_tail(ctx, MINIMUM - (frame_tagged(ctx) ? TAG : 0), 0);
}

/* A new outermost tag has the content of the old one. */
static __always_inline int push(CONTEXT *ctx, struct nl_fl_work *w, __u16 type)
{
	__u16 tci = 0;

	if ((w->tags && read_tci(ctx, &tci)) || add_tag(ctx, type, tci))
		return -1;
	w->tags++;
	shift(w, TAG);
	return 0;
}

/* A frame of Ethernet's minimum stays one. */
static __always_inline int pop(CONTEXT *ctx, struct nl_fl_work *w, bool bare)
{
	__u32 before = w->total;

	if (!w->tags)
		return 0;
	if (remove_tag(ctx))
		return -1;
	w->tags--;
	shift(w, -TAG);
	/* A frame that was already short (virtual links do not pad) stays as it is. */
	if (bare || before < MINIMUM || w->total >= MINIMUM)
		return 0;
	if (pad(ctx, w->total))
		return -1;
	w->total = MINIMUM;
	return 0;
}

/* Changes the masked bits (upper half of `bits`) of the outermost tag. */
static __always_inline int set_tag(CONTEXT *ctx, struct nl_fl_work *w, __u32 bits)
{
	__u16 tci;

	if (!w->tags)
		return 0;
	if (read_tci(ctx, &tci))
		return -1;
	tci = (tci & ~(bits >> 16)) | (bits & 0xffff);
	/* Programs cannot write skb->vlan_tci: the tag is taken off and put on again. */
	if (frame_tagged(ctx)) {
		__u16 type = frame_tag_type(ctx);

		return bpf_skb_vlan_pop(ctx) || bpf_skb_vlan_push(ctx, type, tci);
	}
	tci = bpf_htons(tci);
	return frame_store(ctx, TAGS_AT + 2, &tci, 2, false);
}

/* Writes the head as it was read. */
static __always_inline int restore(CONTEXT *ctx, struct nl_fl_work *w)
{
	__u32 beside = frame_tagged(ctx) ? TAG : 0, rest = w->view - ADDRESSES - beside;

	if (!nl_within(&rest, NL_FL_HEAD - ADDRESSES - TAG))
		return -1;
	if (frame_store(ctx, 0, w->head, ADDRESSES, true))
		return -1;
	/* The ethertype, which no sum covers, has not changed. */
	if (beside)
		return frame_store(ctx, ADDRESSES, w->head + ADDRESSES + TAG, rest, false);
	return frame_store(ctx, ADDRESSES, w->head + ADDRESSES, rest, false);
}

/* Does an operation that changes the frame: 0, or an error. */
__noinline int nl_fl_edit(CONTEXT *ctx, struct nl_fl_work *w, const struct nl_fl_op *op)
{
	if (!w || !op)
		return -1;
	switch (op->kind) {
	case NL_FL_WRITE:
		return write_masked(ctx, w, op);
	case NL_FL_DECREMENT:
		return decrement(ctx, w);
	case NL_FL_PUSH:
		return push(ctx, w, op->argument);
	case NL_FL_POP:
		return pop(ctx, w, op->argument);
	case NL_FL_TAG_ADD:
		if (!w->tags && push(ctx, w, 0x8100))
			return -1;
		return set_tag(ctx, w, op->argument);
	case NL_FL_TAG:
		return set_tag(ctx, w, op->argument);
	case NL_FL_SAVE:
		return !read_head(ctx, w, NL_FL_HEAD);
	case NL_FL_RESTORE:
		return restore(ctx, w);
	default:
		return -1;
	}
}

/* One operation; whether it was the last. */
static long step(__u32 index, struct run *r)
{
	__u32 place = r->next;
	const struct nl_fl_op *op = bpf_map_lookup_elem(&nl_fl_ops, &place);

	if (!op) {
		r->failed = true;
		return 1;
	}
	r->next = op->next;
	if (op->kind != NL_FL_SEND) {
		r->failed = nl_fl_edit(r->ctx, r->w, op);
		return r->failed || r->next == NL_FL_NONE;
	}
	if (r->next == NL_FL_NONE) {
		r->to = op->argument;
		r->port = op->needs;
		return 1;
	}
	/* Later edits unshare the buffer first, so the clone keeps these bytes. A clone that is
	 * lost must not stop the frame's other outputs. */
	r->lost |= bpf_clone_redirect(r->ctx, op->argument, 0) < 0;
	return 0;
}

/* Does a list; the verdict for what remains of the frame. */
static __always_inline int act(CONTEXT *ctx, struct nl_fl_work *w, struct nl_fl_cpu *cpu, __u32 first,
			       __u32 number)
{
	struct run r = { .ctx = ctx, .w = w, .next = first };
	const struct nl_fl_op *op;

	if (first == NL_FL_NONE)
		return VERDICT_DROP;
	/* Most results are one output: no loop, and the frame may go straight to the peer. */
	op = bpf_map_lookup_elem(&nl_fl_ops, &first);
	if (op && op->kind == NL_FL_SEND && op->next == NL_FL_NONE) {
		carry_out(ctx, w, number, op->needs);
		return send_frame(ctx, w, op->argument);
	}
	/* Through the helper the verifier follows one turn of the loop, not each of 256. */
	bpf_loop(NL_FL_LONGEST, step, &r, 0);
	cpu->failed += r.failed || r.lost;
	if (!r.to || r.failed)
		return VERDICT_DROP;
	carry_out(ctx, w, number, r.port);
	return bpf_redirect(r.to, 0);
}

#endif
