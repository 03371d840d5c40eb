//! Output of a path measurement: tables while it runs and at its end, lines of JSON, or CSV.

use std::io::IsTerminal;

use anyhow::Result;
use netloom_marking::total::WayTotal;
use netloom_marking::{Completeness, TwoWay};
use netloom_measure::ClosedBlock;
use netloom_measure::view::ScheduleView;
use netloom_model::lookup::path::{PacketPath, Passage};
use netloom_session::measure::between::{Closed, Prepared};
use netloom_session::measure::{
    Book, Entry, Flow, Measured, Measurement, Paths, Rerouted, Route, Watch, point_name as name,
};
use serde_json::{Value, json};

use super::both;
use super::json::{Figures, clock, csv, merged, reasons, record, told};
use super::line;
use crate::flags::Measure;
use crate::output::{or_dash, print, table};

/// Columns of tables.
const HEAD: [&str; 9] =
    ["HOP", "IN", "LOST", "GAINED", "MEAN ms", "P50 ms", "P99 ms", "AT MOST ms", "JITTER ms"];
/// Columns of CSV.
const CSV: &str = "block,begin_ns,from,to,flow,hop,sent,received,lost,gained,mean_ns,p50_ns,p99_ns,\
                   p99_at_most_ns,jitter_ns,complete,families";
/// Name of the end-to-end row.
const WHOLE: &str = "way";

/// The output.
pub(super) struct Output<'a> {
    ways: &'a Paths,
    probe: String,
    args: &'a Measure,
    /// Lines to be overwritten by the next block, on a terminal.
    shown: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(args: &'a Measure, prepared: &'a Prepared) -> Output<'a> {
        let (ways, probe) = (prepared.ways(), prepared.probe());
        Output { ways, probe, args, shown: 0 }
    }

    /// Prints what is measured. Call it once block 0 has begun: everything sent from then on is counted.
    pub(super) fn begin(&self, watch: &Watch, flows: &[Flow]) -> Result<()> {
        if self.args.csv {
            return line(CSV);
        }
        if self.args.json {
            return line(&self.head(watch, flows).to_string());
        }
        let first = &self.ways.all[0];
        let back = if self.ways.all.iter().any(|way| way.back) { " and back" } else { "" };
        let there = self.ways.all.iter().filter(|way| !way.back);
        let families: Vec<String> = there.map(Measured::families).collect();
        let (first, families) = (&first.way, families.join(" and "));
        let marked =
            if self.args.no_marking { "as marked by others" } else { "marked at its ends" };
        print(&format!(
            "{} -> {}{back}, {families}: {}, blocks of {}, {marked}\n",
            first.from,
            first.to,
            crate::output::count(first.hops.len(), "hop"),
            milliseconds(watch.schedule.period()),
        ))
    }

    fn head(&self, watch: &Watch, flows: &[Flow]) -> Value {
        let point = |p: &Passage| json!({ "name": name(p), "direction": direction(p) });
        let way = |measured: &Measured| {
            let way = &measured.way;
            let pairs = measured.pairs.iter();
            let pairs = pairs.map(|(from, to)| json!({ "source": from, "destination": to }));
            json!({
                "from": way.from, "to": way.to,
                "source": way.source, "destination": way.destination,
                "addresses": pairs.collect::<Vec<_>>(),
                "points": way.points.iter().map(point).collect::<Vec<_>>(),
                "hops": way.hops,
            })
        };
        let rest = json!({
            "program": self.args.program,
            "schedule": told(&ScheduleView::from(watch.schedule)),
            "ways": self.ways.all.iter().map(way).collect::<Vec<_>>(),
            "flows": flows.iter().map(|flow| &flow.name).collect::<Vec<_>>(),
        });
        merged([json!({ "type": "way" }), clock(&self.probe, watch.session.clock()), rest])
    }

    /// Shows a closed block.
    pub(super) fn block(&mut self, closed: Closed<'_>) -> Result<()> {
        let Closed { told, blocks, book, flows, watch } = closed;
        if self.args.quiet {
            return Ok(());
        }
        if self.args.csv || self.args.json {
            for (entry, block) in book.entries.iter().zip(blocks) {
                let figures: Vec<Figures<'_>> = block.hops.iter().map(Figures::from).collect();
                let whole = Figures::from(&block.whole);
                let (number, complete) = (block.block, block.completeness);
                if self.args.csv {
                    let begin = watch.schedule.begin(number);
                    let label = (flows[entry.flow].name.as_str(), number, begin);
                    self.csv_lines(entry, label, &figures, whole, complete)?;
                } else {
                    let about = json!({
                        "type": "block",
                        "block": number,
                        "begin": watch.schedule.begin(number).to_string(),
                        "end": watch.schedule.end(number).to_string(),
                        "points": self.points(entry, book, told),
                    });
                    let parts = [about, clock(&self.probe, watch.session.clock())];
                    let flow = &flows[entry.flow];
                    let object = self.object((entry, flow), parts, &figures, whole, complete);
                    line(&object.to_string())?;
                }
            }
            if self.args.json {
                for (pair, flow, [there, back]) in both::pairs(self.ways, book, blocks) {
                    let about = json!({
                        "type": "two_way",
                        "block": there.block,
                        "begin": watch.schedule.begin(there.block).to_string(),
                        "end": watch.schedule.end(there.block).to_string(),
                    });
                    let figures = TwoWay::of_block(&there.whole, &back.whole);
                    let complete = there.completeness.or(back.completeness);
                    let parts = [about, clock(&self.probe, watch.session.clock())];
                    line(&both::object(pair, &flows[flow], parts, &figures, complete).to_string())?;
                }
            }
            return Ok(());
        }
        let mut text = String::new();
        for (entry, block) in book.entries.iter().zip(blocks) {
            let figures: Vec<Figures<'_>> = block.hops.iter().map(Figures::from).collect();
            text += &format!("\nblock {}: {}\n", block.block, self.label(entry, flows));
            text += &self.table(entry, &figures, Figures::from(&block.whole));
            if !block.completeness.is_complete() {
                text += &format!("not complete: {}\n", block.completeness.reasons().join(", "));
            }
        }
        for (pair, flow, [there, back]) in both::pairs(self.ways, book, blocks) {
            let label = self.named(pair, &flows[flow], flows.len(), "<->");
            let figures = TwoWay::of_block(&there.whole, &back.whole);
            text += &format!("\nblock {}: {label}\n{}", there.block, both::table(&figures));
        }
        if std::io::stdout().is_terminal() {
            if self.shown > 0 {
                text.insert_str(0, &format!("\x1b[{}A\x1b[J", self.shown));
            }
            self.shown = text.matches('\n').count();
        }
        print(&text)
    }

    /// Tells of a flow that joined.
    pub(super) fn joined(&mut self, flow: &Flow, from: u64) -> Result<()> {
        if self.args.json {
            let text = json!({ "type": "flow", "flow": flow.name, "from_block": from });
            return line(&text.to_string());
        }
        if self.args.quiet || self.args.csv {
            return Ok(());
        }
        // This line is to stay: the next block is shown below it, not over it.
        self.shown = 0;
        print(&format!("\nflow {}: measured from block {from} on\n", flow.name))
    }

    /// Tells that packets take another path, or the measured one again.
    pub(super) fn rerouted(&mut self, change: &Rerouted) -> Result<()> {
        let Rerouted { way, version, block, route } = change;
        let PacketPath { from, to, .. } = &self.ways.all[*way].way;
        if self.args.json {
            let mut text = json!({
                "type": "route", "from": from, "to": to, "family": version, "block": block,
                "measured": matches!(route, Route::Measured),
            });
            match route {
                Route::Measured => {}
                Route::Other(hops) => text["hops"] = json!(hops),
                Route::Ends(why) | Route::Unknown(why) => text["why"] = json!(why),
            }
            return line(&text.to_string());
        }
        // The note below moves the cursor, so that the last block cannot be overwritten.
        self.shown = 0;
        let what = match route {
            Route::Measured => "take the measured path again".to_owned(),
            Route::Other(hops) => format!("take another path: {}", hops.join(", ")),
            Route::Ends(why) => format!("do not arrive: {why}"),
            Route::Unknown(why) => format!("take another path: {why}"),
        };
        tell_line!("note: {from} -> {to}, block {block}: IPv{version} packets {what}");
        Ok(())
    }

    /// Shows all blocks together.
    pub(super) fn end(&self, measurement: &Measurement<'_>) -> Result<()> {
        let (book, watch) = (measurement.book(), measurement.watch());
        let flows = measurement.flows();
        if self.args.csv {
            return Ok(());
        }
        let (mut text, mut last) = (String::new(), String::new());
        for entry in &book.entries {
            let total = &entry.total;
            let figures: Vec<Figures<'_>> = total.hops.iter().map(Figures::from).collect();
            let whole = Figures::from(&total.whole);
            if self.args.json {
                let about = json!({
                    "type": "total", "blocks": total.blocks, "incomplete": total.incomplete,
                });
                let parts = [about, clock(&self.probe, watch.session.clock())];
                let flow = &flows[entry.flow];
                let object = self.object((entry, flow), parts, &figures, whole, total.against);
                line(&object.to_string())?;
                continue;
            }
            let blocks = crate::output::count(usize::try_from(total.blocks).unwrap_or(0), "block");
            text += &format!("\n{blocks} together: {}\n", self.label(entry, flows));
            text += &self.table(entry, &figures, whole);
            last += &verdict(total, &self.way(entry).hops, &self.label(entry, flows));
        }
        let totals: Vec<&WayTotal> = book.entries.iter().map(|entry| &entry.total).collect();
        for (pair, flow, [there, back]) in both::pairs(self.ways, book, &totals) {
            let figures = TwoWay::of_total(&there.whole, &back.whole);
            if self.args.json {
                let about = json!({
                    "type": "two_way_total", "blocks": [there.blocks, back.blocks],
                });
                let parts = [about, clock(&self.probe, watch.session.clock())];
                let complete = there.against.or(back.against);
                line(&both::object(pair, &flows[flow], parts, &figures, complete).to_string())?;
                continue;
            }
            let label = self.named(pair, &flows[flow], flows.len(), "<->");
            text += &format!("\nthere and back together: {label}\n{}", both::table(&figures));
        }
        print(&format!("{text}{}{last}", if text.is_empty() { "" } else { "\n" }))
    }

    /// Reports the number of packets that only `-4` or `-6` kept from being measured.
    pub(super) fn left_out(&self, packets: u64) -> Result<()> {
        let Some(left_out) = &self.ways.left_out else { return Ok(()) };
        let family = left_out.version;
        if self.args.json {
            let text = json!({ "type": "left_out", "family": family, "packets": packets });
            return line(&text.to_string());
        }
        if packets == 0 {
            return Ok(());
        }
        let packets = crate::output::count(
            usize::try_from(packets).unwrap_or(usize::MAX),
            &format!("IPv{family} packet"),
        );
        let other = 10 - family;
        let narrowed = self.args.what.ipv4 || self.args.what.ipv6;
        let rest = if narrowed {
            format!("; use -{family}, or leave out -{other}")
        } else {
            String::new()
        };
        let words = format!("{packets} not measured{rest}\n");
        if self.args.csv {
            tell!("note: {words}");
            return Ok(());
        }
        print(&words)
    }

    fn way(&self, entry: &Entry) -> &'a PacketPath {
        &self.ways.all[entry.way].way
    }

    fn label(&self, entry: &Entry, flows: &[Flow]) -> String {
        self.named(&self.ways.all[entry.way], &flows[entry.flow], flows.len(), "->")
    }

    /// A path, or with another arrow two of them, and what distinguishes it from others.
    fn named(&self, measured: &Measured, flow: &Flow, flows: usize, arrow: &str) -> String {
        let mut label = format!("{} {arrow} {}", measured.way.from, measured.way.to);
        if self.ways.differs(measured) {
            label += &format!(", {}", measured.families());
        }
        if flows > 1 {
            label += &format!(", {}", flow.name);
        }
        label
    }

    /// A row for each hop, and one for the whole path.
    fn table(&self, entry: &Entry, figures: &[Figures<'_>], whole: Figures<'_>) -> String {
        let names = self.way(entry).hops.iter().map(String::as_str).chain([WHOLE]);
        let all = figures.iter().copied().chain([whole]);
        table(&HEAD, names.zip(all).map(|(name, figures)| row(name, &figures)).collect())
    }

    /// Each hop with the names of its points, then the whole path.
    fn hops<'f>(
        &self,
        entry: &Entry,
        figures: &'f [Figures<'f>],
    ) -> impl Iterator<Item = (&'a str, (String, String), &'f Figures<'f>)> {
        let way = self.way(entry);
        let ends = way.points.iter().zip(way.points.iter().skip(1));
        let hops = way.hops.iter().zip(ends).zip(figures);
        hops.map(|((hop, (a, b)), figures)| (hop.as_str(), (name(a), name(b)), figures))
    }

    fn object(
        &self,
        (entry, flow): (&Entry, &Flow),
        parts: [Value; 2],
        figures: &[Figures<'_>],
        whole: Figures<'_>,
        complete: Completeness,
    ) -> Value {
        let way = self.way(entry);
        let hops = self.hops(entry, figures);
        let hops: Vec<Value> = hops.map(|(hop, (a, b), f)| f.json(hop, (&a, &b))).collect();
        let ends = way.points.first().zip(way.points.last());
        let whole = ends.map(|(a, b)| whole.json(WHOLE, (&name(a), &name(b))));
        let flow = &flow.name;
        let families: Vec<u8> = self.ways.all[entry.way].versions().collect();
        let about = json!({ "from": way.from, "to": way.to, "families": families, "flow": flow });
        let [kind, clock] = parts;
        merged([kind, clock, about, reasons(complete), json!({ "hops": hops, "way": whole })])
    }

    /// The records of a block's points.
    fn points(&self, entry: &Entry, book: &Book, told: &ClosedBlock) -> Vec<Value> {
        let points = self.way(entry).points.iter();
        let records = points.zip(book.records(entry, told)).map(|(point, flow)| {
            json!({
                "name": name(point), "direction": direction(point), "record": flow.map(record),
            })
        });
        records.collect()
    }

    fn csv_lines(
        &self,
        entry: &Entry,
        (flow, block, begin): (&str, u64, u64),
        figures: &[Figures<'_>],
        whole: Figures<'_>,
        complete: Completeness,
    ) -> Result<()> {
        let way = self.way(entry);
        let versions = self.ways.all[entry.way].versions().map(|version| version.to_string());
        let families = versions.collect::<Vec<_>>().join("+");
        let names = way.hops.iter().map(String::as_str).chain([WHOLE]);
        for (hop, figures) in names.zip(figures.iter().copied().chain([whole])) {
            let [p50, p99] = figures.quantiles();
            let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.0}"));
            let whole = |value: Option<i64>| value.map_or_else(String::new, |v| v.to_string());
            let fields = [
                block.to_string(),
                begin.to_string(),
                way.from.clone(),
                way.to.clone(),
                flow.to_owned(),
                hop.to_owned(),
                figures.sent.to_string(),
                figures.received.to_string(),
                figures.lost.to_string(),
                figures.gained.to_string(),
                number(figures.mean()),
                whole(p50.and_then(|q| q.value)),
                whole(p99.and_then(|q| q.value)),
                whole(p99.and_then(|q| q.high)),
                number(figures.jitter()),
                complete.is_complete().to_string(),
                families.clone(),
            ];
            line(&csv(&fields))?;
        }
        Ok(())
    }
}

/// The last line about a path: where packets were lost.
fn verdict(total: &WayTotal, hops: &[String], label: &str) -> String {
    let mut text = String::new();
    if total.incomplete > 0 {
        text += &format!(
            "not summed: {} of {} blocks ({label}): {}\n",
            total.incomplete,
            total.incomplete + total.blocks,
            total.against.reasons().join(", "),
        );
    }
    let mut none = true;
    for (hop, name) in total.hops.iter().zip(hops) {
        if hop.lost > 0 {
            none = false;
            text += &format!("lost: {} of {} packets on {name} ({label})\n", hop.lost, hop.sent);
        }
        if hop.gained > 0 {
            text += &format!("gained: {} packets on {name} ({label})\n", hop.gained);
        }
    }
    if none {
        text += &match total.whole.sent {
            0 => format!("no packet was seen ({label})\n"),
            sent => format!("lost: none of {sent} packets ({label})\n"),
        };
    }
    text
}

fn direction(point: &Passage) -> &'static str {
    if point.out { "egress" } else { "ingress" }
}

fn row(name: &str, figures: &Figures<'_>) -> Vec<String> {
    let [p50, p99] = figures.quantiles();
    let exact = |value: Option<i64>| {
        value.map(|ns| {
            #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
            let ns = ns as f64;
            ns
        })
    };
    let cell = |value: Option<f64>| or_dash(value, |ns| format!("{:.3}", ns / 1e6));
    vec![
        name.to_owned(),
        figures.sent.to_string(),
        figures.lost.to_string(),
        figures.gained.to_string(),
        cell(figures.mean()),
        cell(exact(p50.and_then(|q| q.value))),
        cell(exact(p99.and_then(|q| q.value))),
        cell(exact(p99.and_then(|q| q.high))),
        cell(figures.jitter()),
    ]
}

/// `1000 ms`
fn milliseconds(ns: u64) -> String {
    format!("{} ms", ns / 1_000_000)
}
