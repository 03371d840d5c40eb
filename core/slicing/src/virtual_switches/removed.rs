//! Entries that the switch removed, and the rules that are gone when all their entries are.
//!
//! An entry of several that saw no packet for the rule's idle timeout is put back, because packets of others keep the
//! rule. The rule is idle when there is a time for which all its entries are known to have been idle as long. Entries
//! of which the switch was asked to delete them come back as removed, too, with what they counted last.

use netloom_openflow::flow::{FlowCommand, FlowFlags, FlowRemoved, RemovedReason};
use netloom_openflow::{Message, flow::Duration};

use super::jobs::Job;
use super::rules::Rule;
use super::{Out, Sent, VirtualSwitches};
use crate::{SliceId, Time};

const SECOND: Time = 1_000_000_000;

impl VirtualSwitches {
    /// What this program does by itself for a slice.
    pub(super) fn own(slice: SliceId, now: Time) -> Sent {
        Sent { slice, xid: 0, now, head: [].into() }
    }

    pub(super) fn flow_removed(&mut self, now: Time, removed: &FlowRemoved, out: &mut Vec<Out>) {
        let Some((number, at, rule)) = self.rules.of_cookie(removed.cookie) else { return };
        let (slice, dying) = (rule.slice, rule.dying.is_some());
        let Some(rule) = self.rules.get_mut(slice, number) else { return };
        rule.packets = rule.packets.saturating_add(removed.packets);
        rule.bytes = rule.bytes.saturating_add(removed.bytes);
        let idle = SECOND * Time::from(rule.said.idle_timeout);
        let several = rule.pieces.len() > 1;
        if let Some(piece) = rule.pieces.get_mut(at) {
            rule.alive -= usize::from(std::mem::take(&mut piece.alive));
            // With packets in between, only the last idle timeout is known to be quiet.
            let quiet_since = match piece.quiet {
                Some((from, _)) if removed.packets == 0 => from,
                _ => now.saturating_sub(idle),
            };
            piece.quiet = Some((quiet_since, now));
        }
        let sent = VirtualSwitches::own(slice, now);
        let idles = removed.reason == RemovedReason::IdleTimeout;
        if idles && several && !dying && !is_idle(rule, idle) {
            if let Some(piece) = rule.pieces.get_mut(at) {
                piece.alive = true;
                rule.alive += 1;
            }
            // The switch counts the new entry from zero: what the old one had counted is only here.
            self.rules.note(slice, number);
            self.install_piece(&sent, number, at, FlowCommand::Add, out);
            return;
        }
        let others = rule.alive > 0;
        self.rules.dies(slice, number, removed.reason);
        if dying || !others {
            self.nothing_left(now, slice, number, out);
        } else {
            self.push_first(sent, Job::Uninstall { number, piece: 0, forget: false });
        }
    }

    /// A rule without entries is gone.
    pub(super) fn nothing_left(
        &mut self,
        now: Time,
        slice: SliceId,
        number: u64,
        out: &mut Vec<Out>,
    ) {
        if self.rules.get(slice, number).is_none_or(|rule| rule.alive > 0) {
            return;
        }
        let Some(rule) = self.rules.remove(slice, number) else { return };
        let reason = rule.dying.unwrap_or(RemovedReason::Delete);
        let told = rule.said.flags.has(FlowFlags::SEND_FLOW_REM)
            && self.of(rule.slice).is_ok_and(|member| {
                let bits = member.interests.flow_removed.get(member.side()).copied().unwrap_or(0);
                bits.checked_shr(u32::from(u8::from(reason))).unwrap_or(0) & 1 == 1
            });
        if !told {
            return;
        }
        let removed = FlowRemoved {
            cookie: rule.said.cookie,
            priority: rule.said.priority,
            reason,
            table: rule.said.table,
            duration: Duration::from_nanoseconds(now.saturating_sub(rule.since)),
            idle_timeout: rule.said.idle_timeout,
            hard_timeout: rule.said.hard_timeout,
            packets: rule.packets,
            bytes: rule.bytes,
            matching: rule.said.matching,
        };
        self.tell(rule.slice, 0, Message::FlowRemoved(removed), out);
    }

    /// The switch refused an entry: the rule is not there, and the slice is told once.
    pub(super) fn rule_failed(&mut self, slice: SliceId, number: u64, now: Time) -> bool {
        let Some(rule) = self.rules.get_mut(slice, number) else { return false };
        // Which entry it was is not known; one that is not there is not missed.
        rule.said.flags = rule.said.flags.without(FlowFlags::SEND_FLOW_REM);
        let fresh = rule.dying.is_none();
        if fresh {
            self.rules.dies(slice, number, RemovedReason::Delete);
            let forget = Job::Uninstall { number, piece: 0, forget: true };
            self.push_first(VirtualSwitches::own(slice, now), forget);
        }
        fresh
    }
}

/// Whether all entries were idle at the same time for that long.
fn is_idle(rule: &Rule, idle: Time) -> bool {
    let mut common: Option<(Time, Time)> = None;
    for piece in &rule.pieces {
        let Some((from, to)) = piece.quiet else { return false };
        // The spans in which all were quiet: their intersection.
        common = Some(common.map_or((from, to), |(a, b)| (a.max(from), b.min(to))));
    }
    common.is_some_and(|(from, to)| from.saturating_add(idle) <= to)
}
