//! Counters that never fall, made of counters that begin again where what counts is recreated.
//!
//! Prometheus takes a counter that falls for one that began again at zero. That is wrong for a sum of which one part began
//! again, and for figures that are shares or differences of others: so neither is told as it was read. What was told of a
//! counter is handed over to the next lab process ([`Earlier`]), and so is how CPU time was divided: what counts may begin again
//! before that process reads it for the first time. What was counted between the last reading and a new beginning is lost.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Metric;
use super::text::{Labels, Sheet};
use crate::view::NodeStatus;

/// What a later process of the lab has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// Counters that were not zero, by the labels of their object.
    counters: BTreeMap<String, Vec<Kept>>,
    /// The CPU time that was told, by the labels of nodes.
    cpu: BTreeMap<String, Cpu>,
}

/// A counter that is handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The name of its family.
    family: Cow<'static, str>,
    /// The labels that its object does not have.
    labels: Labels,
    /// What it has beyond what is read of it.
    beyond: u64,
    /// What was read last. A lower reading tells that it began again, and that it is not read at all, that its node has ended.
    last: u64,
}

/// What it means that a counter is lower than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It began again at zero: what it shows is all new.
    Whole,
    /// It is a sum or a difference, of which a part began again or changed its place: nothing of it is known to be new.
    Part,
}

/// The counters of all objects, by their labels.
#[derive(Debug, Default)]
pub(super) struct Totals {
    objects: HashMap<Labels, Object>,
    /// Those of the exposition that is being written.
    here: HashMap<Labels, Object>,
    /// What is not taken over yet.
    earlier: Earlier,
    /// What was handed over last.
    handed: Arc<Earlier>,
}

/// The counters of a node, an interface, a program or a link.
#[derive(Debug, Default)]
pub(super) struct Object {
    counters: Vec<Counter>,
    cpu: Cpu,
}

#[derive(Debug)]
struct Counter {
    metric: Metric,
    labels: Labels,
    rule: Rule,
    /// What was read for the exposition that is being written.
    now: Option<u64>,
    last: u64,
    /// What is told beyond `last`.
    more: u64,
    /// It is known to have begun again.
    began_again: bool,
}

/// A node's CPU time as it was told last, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cpu {
    all: u64,
    user: u64,
    system: u64,
    receive: u64,
}

impl Totals {
    /// Counters of a lab whose earlier process left this.
    pub(super) fn after(handed: Arc<Earlier>) -> Totals {
        Totals { earlier: Earlier::clone(&handed), handed, ..Totals::default() }
    }

    /// The object with these labels, as it was told last.
    pub(super) fn take(&mut self, labels: &Labels) -> Object {
        let known = self.here.remove(labels).or_else(|| self.objects.remove(labels));
        known.unwrap_or_else(|| Object {
            counters: self.earlier.take(labels),
            cpu: self.earlier.cpu.remove(&labels.to_string()).unwrap_or_default(),
        })
    }

    /// Tells all counters of an object, also of what was not read this time, and keeps them.
    pub(super) fn put(&mut self, labels: &Labels, mut object: Object, sheet: &mut Sheet) {
        for counter in &mut object.counters {
            let labels = labels.and(&counter.labels);
            counter.settle();
            sheet.total(counter.metric, &labels, counter.last.saturating_add(counter.more));
        }
        self.here.insert(labels.clone(), object);
    }

    /// Ends an exposition: what was not in it does not exist any more. Returns what is to be handed over, where that is new.
    pub(super) fn end(&mut self) -> Option<Arc<Earlier>> {
        self.objects = std::mem::take(&mut self.here);
        self.earlier = Earlier::default();
        let now = Earlier { counters: self.counters(), cpu: self.cpu() };
        (now != *self.handed).then(|| {
            self.handed = Arc::new(now);
            Arc::clone(&self.handed)
        })
    }

    /// What was handed over last was lost.
    pub(super) fn not_kept(&mut self) {
        self.handed = Arc::default();
    }

    fn cpu(&self) -> BTreeMap<String, Cpu> {
        let nodes = self.objects.iter().filter(|(_, object)| object.cpu != Cpu::default());
        nodes.map(|(labels, object)| (labels.to_string(), object.cpu)).collect()
    }

    fn counters(&self) -> BTreeMap<String, Vec<Kept>> {
        let all = self.objects.iter().map(|(labels, object)| {
            let kept: Vec<Kept> = object.counters.iter().filter_map(Counter::kept).collect();
            (labels.to_string(), kept)
        });
        all.filter(|(_, kept)| !kept.is_empty()).collect()
    }

    /// How many objects are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

impl Earlier {
    /// What was handed over of an object's counters, which are told whether they are read again or not.
    fn take(&mut self, labels: &Labels) -> Vec<Counter> {
        let kept = self.counters.remove(&labels.to_string()).unwrap_or_default();
        // A later version may not tell some.
        let counter = |kept: Kept| {
            let metric = Metric::ALL.iter().find(|m| m.family().name == kept.family)?;
            let (more, last) = (kept.beyond, kept.last);
            Some(Counter { more, last, ..Counter::new(*metric, kept.labels) })
        };
        kept.into_iter().filter_map(counter).collect()
    }
}

impl Counter {
    fn new(metric: Metric, labels: Labels) -> Counter {
        let rule = Rule::Whole;
        Counter { metric, labels, rule, now: None, last: 0, more: 0, began_again: false }
    }

    /// What a later process has to know of it.
    fn kept(&self) -> Option<Kept> {
        (self.more > 0 || self.last > 0).then(|| Kept {
            family: self.metric.family().name.into(),
            labels: self.labels.clone(),
            beyond: self.more,
            last: self.last,
        })
    }

    /// Takes over what was read.
    fn settle(&mut self) {
        let Some(now) = self.now.take() else { return };
        let kept = match self.rule {
            _ if std::mem::take(&mut self.began_again) => self.last,
            Rule::Whole if now < self.last => self.last,
            Rule::Whole => 0,
            Rule::Part => self.last.saturating_sub(now),
        };
        self.more = self.more.saturating_add(kept);
        self.last = now;
    }
}

impl Object {
    /// A counter was read. What is read of the same one twice is added up.
    pub(super) fn see(&mut self, metric: Metric, labels: Labels, raw: u64, rule: Rule) {
        let known = self.counters.iter_mut().find(|c| c.metric == metric && c.labels == labels);
        match known {
            Some(counter) => {
                counter.rule = rule;
                counter.now = Some(counter.now.unwrap_or(0).saturating_add(raw));
            }
            None => {
                self.counters.push(Counter { rule, now: Some(raw), ..Counter::new(metric, labels) })
            }
        }
    }

    /// A node's CPU time was read.
    pub(super) fn see_cpu(&mut self, node: &NodeStatus) {
        let Some(all) = node.cpu_ns else { return };
        if all < self.cpu.all {
            self.cpu = Cpu::default();
            // A part may be larger than before, although it began again.
            let parts = self.counters.iter_mut().filter(|c| c.metric == Metric::NodeCpu);
            parts.for_each(|counter| counter.began_again = true);
        }
        self.cpu.all = all;
        let Some(user) = node.cpu_user_ns else { return self.see_mode("all", all) };
        let mut cpu = self.cpu;
        cpu.receive = node.cpu_receive_ns.unwrap_or(0).max(cpu.receive);
        // The kernel tells the parts by samples, so each one can fall; their sum grows as it does.
        let before = cpu.user + cpu.system;
        let grown = all.saturating_sub(cpu.receive).saturating_sub(before);
        cpu.user = user.clamp(cpu.user, cpu.user + grown);
        cpu.system = before + grown - cpu.user;
        self.cpu = cpu;
        self.see_mode("user", cpu.user);
        self.see_mode("system", cpu.system);
        if node.cpu_receive_ns.is_some() {
            self.see_mode("receive", cpu.receive);
        }
    }

    fn see_mode(&mut self, mode: &str, ns: u64) {
        self.see(Metric::NodeCpu, Labels::default().with("mode", mode), ns, Rule::Whole);
    }
}
