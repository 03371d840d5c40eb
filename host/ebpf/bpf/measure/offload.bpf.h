/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * What offload left undone in a frame: read from the kernel's own structures.
 */
#ifndef NETLOOM_MEASURE_OFFLOAD_H
#define NETLOOM_MEASURE_OFFLOAD_H

#include <bpf/bpf_core_read.h>

/* Members that a context does not show. */
struct sk_buff___me {
	unsigned char *head;
	__u32 end;
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

struct skb_shared_info___me {
	__u32 gso_type;
} __attribute__((preserve_access_index));

#define PARTIAL 3
/* Its bit before Linux 6.18, and since. */
#define GSO_TCP_FIXEDID (1u << 3 | 1u << 30)
#define GSO_TCP (1u << 0 | 1u << 4)
#define GSO_UDP_L4 (1u << 17)
/* GRE, IP in IP and UDP tunnels, two types each. */
#define GSO_TUNNELS 0xfc0u

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;

#ifdef NL_ME_XDP
/* A card's received frame is as it was on the wire. */
static __always_inline void look_at_offload(CONTEXT *skb, const struct packet *p, struct segment *s)
{
}
#else
/* Reads what offload left undone, if allowed (Linux 6.2); else assumes the worse case. */
static __always_inline void look_at_offload(CONTEXT *skb, const struct packet *p,
					    struct segment *s)
{
	struct skb_shared_info___me *shared;
	struct sk_buff___me *frame;
	__u32 type = 0, wanted;

	s->partial = true;
	s->strange = s->is && p->protocol != TCP;
	if (!bpf_ksym_exists(bpf_cast_to_kern_ctx) ||
	    !bpf_core_field_exists(struct sk_buff___me, ip_summed))
		return;
	frame = bpf_cast_to_kern_ctx(skb);
	s->partial = BPF_CORE_READ_BITFIELD(frame, ip_summed) == PARTIAL;
	if (!s->is)
		return;
	shared = (void *)(BPF_CORE_READ(frame, head) + BPF_CORE_READ(frame, end));
	bpf_core_read(&type, sizeof(type), &shared->gso_type);
	wanted = p->protocol == TCP ? GSO_TCP : GSO_UDP_L4;
	/* Only in test runs has a super-frame no type. */
	s->strange = type && (!(type & wanted) || (type & GSO_TUNNELS));
	s->fixed_id = type & GSO_TCP_FIXEDID;
}
#endif

#endif
