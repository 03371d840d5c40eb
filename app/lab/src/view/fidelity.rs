//! How late a lab was: readings of what is counted, and what was behind between two of them.
//!
//! Terms and bounds are those of [`netloom_fidelity`].

use std::cmp::Reverse;

use netloom_fidelity::machine::Ticks;
use netloom_fidelity::{Lateness, Waits, recent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was late, or lost because something was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BehindView {
    /// Of what kind it is.
    pub kind: BehindKind,
    /// Its name; of the machine `machine`.
    pub name: String,
    /// The end that sends, of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// In what way.
    pub cause: BehindCause,
    /// How late in nanoseconds: the largest lateness of a frame (`late`), the mean wait (`waits`), all that was taken away
    /// (`stolen`); `null` where frames were lost.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub late_ns: Option<u64>,
    /// 99 % of the frames were at most this late.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub p99_ns: Option<u64>,
    /// Frames that left, turns on a processor, or frames lost.
    pub count: u64,
    /// Unix time in nanoseconds since when it is behind; `null` where it was within a stretch of time that is named elsewhere.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub since_ns: Option<u64>,
}

/// What may be behind.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BehindKind {
    /// A link, one way.
    #[default]
    Link,
    /// Processes of netloom that serve the lab, by their name.
    Process,
    /// The programs of a node.
    Node,
    /// The machine, with all that runs on it.
    Machine,
}

/// In what way something is behind.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BehindCause {
    /// Frames left later than they were due.
    #[default]
    Late,
    /// Frames were lost because the wire did not read them in time.
    Overrun,
    /// What could run waited for a processor.
    Waits,
    /// Frames were lost because a processor's backlog was full.
    Backlog,
    /// The host of this virtual machine ran something else.
    Stolen,
}

/// A reading of what is counted; all counters are totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FidelityView {
    /// Unix time in nanoseconds when it was read.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub time_ns: u64,
    /// Directions of links in which frames can be due: those with a wire. Elsewhere the kernel hands frames on at once.
    pub links: Vec<LatenessView>,
    /// Waits for a processor: of netloom's own processes by name, and of nodes' programs that were seen busy.
    pub waits: Vec<WaitsView>,
    /// Frames that processors' backlogs had no room for, on the whole machine; `null` if that is not known.
    pub backlog_drops: Option<u64>,
    /// Ticks of 1/100 s of all processors, and how many of them were stolen; `null` if that is not known.
    pub ticks: Option<[u64; 2]>,
    /// What this machine does not tell.
    pub unmeasured: Vec<String>,
    /// What is behind now.
    pub behind: Vec<BehindView>,
}

/// Lateness of frames in one direction of a link, since its wire was put in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatenessView {
    /// The link.
    pub link: String,
    /// The end that sends.
    pub from: String,
    /// All of it together, in nanoseconds.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub sum_ns: u64,
    /// The largest one in nanoseconds.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub max_ns: u64,
    /// How many frames were how late: those less than 128 ns first, then four counts for each octave.
    pub counts: Vec<u64>,
    /// Frames lost because the wire did not read them in time.
    pub overruns: u64,
    /// How late the frame is that should leave first and has not, in nanoseconds.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub overdue_ns: u64,
}

/// How long something waited for a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitsView {
    /// A process or a node.
    pub kind: BehindKind,
    /// Its name.
    pub name: String,
    /// All waits together, in nanoseconds.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub wait_ns: u64,
    /// How often it got a processor.
    pub turns: u64,
}

impl FidelityView {
    /// What was behind since an earlier reading: everything that was later than `limit_ns`, and every frame lost for it; the
    /// latest first.
    pub fn since(&self, earlier: &FidelityView, limit_ns: u64) -> Vec<BehindView> {
        let mut all = Vec::new();
        for now in &self.links {
            let same = |l: &&LatenessView| (&l.link, &l.from) == (&now.link, &now.from);
            let before = earlier.links.iter().find(same).cloned().unwrap_or_default();
            all.extend(now.since(&before, limit_ns));
        }
        for now in &self.waits {
            let same = |w: &&WaitsView| (w.kind, &w.name) == (now.kind, &now.name);
            // One that was not seen before may have waited at any time.
            let Some(before) = earlier.waits.iter().find(same) else { continue };
            let waits = now.waits().since(before.waits());
            all.extend(waited(now.kind, &now.name, waits, limit_ns));
        }
        if let (Some(now), Some(before)) = (self.backlog_drops, earlier.backlog_drops) {
            all.extend(dropped(now.saturating_sub(before)));
        }
        if let (Some(now), Some(before)) = (self.ticks, earlier.ticks) {
            let ticks = |[all, stolen]: [u64; 2]| Ticks { all, stolen };
            all.extend(ticks(now).stolen_since(ticks(before)).map(stolen));
        }
        sort(&mut all);
        all
    }
}

/// The latest first.
pub(crate) fn sort(all: &mut [BehindView]) {
    all.sort_by_key(|b| (b.kind, Reverse(b.late_ns), b.name.clone(), b.cause));
}

impl LatenessView {
    fn since(&self, before: &LatenessView, limit_ns: u64) -> Vec<BehindView> {
        let lateness = |view: &LatenessView| Lateness::of(view.sum_ns, view.max_ns, &view.counts);
        let new = lateness(self).since(&lateness(before));
        let late_ns = new.max_ns.max(self.overdue_ns);
        let behind = |cause, late_ns, p99_ns, count| BehindView {
            kind: BehindKind::Link,
            name: self.link.clone(),
            from: Some(self.from.clone()),
            cause,
            late_ns,
            p99_ns,
            count,
            since_ns: None,
        };
        let mut all = Vec::new();
        if late_ns > limit_ns {
            let (numerator, denominator) = recent::QUANTILE;
            let p99 = new.quantile_ns(numerator, denominator);
            all.push(behind(BehindCause::Late, Some(late_ns), Some(p99), new.count));
        }
        // A recreated wire counts from nothing.
        let overruns = self.overruns.checked_sub(before.overruns).unwrap_or(self.overruns);
        if overruns > 0 {
            all.push(behind(BehindCause::Overrun, None, None, overruns));
        }
        all
    }
}

impl WaitsView {
    fn waits(&self) -> Waits {
        Waits { wait_ns: self.wait_ns, turns: self.turns }
    }
}

/// Waits whose mean is longer than `limit_ns`.
pub(crate) fn waited(
    kind: BehindKind,
    name: &str,
    waits: Waits,
    limit_ns: u64,
) -> Option<BehindView> {
    let late_ns = waits.mean_ns();
    (late_ns > limit_ns).then(|| BehindView {
        kind,
        name: name.to_owned(),
        cause: BehindCause::Waits,
        late_ns: Some(late_ns),
        count: waits.turns,
        ..BehindView::default()
    })
}

/// Frames that processors' backlogs had no room for.
pub(crate) fn dropped(count: u64) -> Option<BehindView> {
    (count > 0).then(|| BehindView { count, ..machine(BehindCause::Backlog) })
}

/// Time that was taken away.
pub(crate) fn stolen(ns: u64) -> BehindView {
    BehindView { late_ns: Some(ns), ..machine(BehindCause::Stolen) }
}

fn machine(cause: BehindCause) -> BehindView {
    let name = "machine".to_owned();
    BehindView { kind: BehindKind::Machine, name, cause, ..BehindView::default() }
}

impl BehindView {
    /// Whether it breaks a bound on lateness. Stolen time says nothing of any one moment: what it made late is told as that.
    pub fn is_over(&self) -> bool {
        self.cause != BehindCause::Stolen
    }

    /// What is behind, and how, in words.
    pub fn words(&self) -> String {
        let what = match (self.kind, &self.from) {
            (BehindKind::Link, Some(from)) => format!("link {} from {from}", self.name),
            (BehindKind::Link, None) => format!("link {}", self.name),
            (BehindKind::Process, _) => self.name.clone(),
            (BehindKind::Node, _) => format!("node {}", self.name),
            (BehindKind::Machine, _) => "the machine".to_owned(),
        };
        let late = ms(self.late_ns.unwrap_or(0));
        let how = match self.cause {
            BehindCause::Late => {
                let most = match (self.p99_ns, self.count) {
                    (Some(p99), frames) if frames > 1 => {
                        format!(" (99 % of {frames} frames at most {} ms)", ms(p99))
                    }
                    _ => String::new(),
                };
                format!("was {late} ms late{most}")
            }
            BehindCause::Overrun => {
                format!("lost {} because its wire came too late", frames(self.count))
            }
            BehindCause::Waits => {
                format!("waited {late} ms for a processor on average ({} turns)", self.count)
            }
            BehindCause::Backlog => {
                format!("lost {} for which its backlog had no room", frames(self.count))
            }
            BehindCause::Stolen => format!("had {late} ms of its processors stolen"),
        };
        format!("{what} {how}")
    }
}

fn frames(count: u64) -> String {
    format!("{count} {}", if count == 1 { "frame" } else { "frames" })
}

/// Nanoseconds as milliseconds, as exactly as three digits say it.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 1.0 => format!("{ms:.1}"),
        ms => format!("{ms:.3}"),
    }
}

#[cfg(test)]
#[path = "fidelity_tests.rs"]
mod tests;
