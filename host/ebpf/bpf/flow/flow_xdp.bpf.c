/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The same at a card's receive path, before there is a socket buffer (XDP).
 */
#define NL_FL_XDP
#include "flow.bpf.c"
