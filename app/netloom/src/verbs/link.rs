//! `link`: shows and changes links of a running lab.

use anyhow::Result;
use netloom_lab::calls::{CreateLink, DeleteLink, ListLinks, SetLink, ShowLink};
use netloom_lab::view::{DirectionView, LinkSettings, LinkStatus, LossView, NewLink};

use super::over::elsewhere;
use super::{fates, figures, paging};
use crate::flags::{End, Link, LinkSet};
use crate::output::{facts, notes, or_dash, print, print_json, table};
use crate::{Usage, labs};

/// `netloom link`
pub(crate) fn link(lab: Option<&str>, verb: &Link) -> Result<i32> {
    match verb {
        Link::List(args) => {
            let client = labs::connect(lab)?;
            let page = |after: Option<&str>, limit| client.call(&ListLinks::page(after, limit));
            let (links, more) = paging::listed(args, page)?;
            if args.json {
                print_json(&links)?
            } else {
                print(&list_text(&links))?
            }
            paging::tell_more(more, links.last().map(|link| link.name.as_str()));
        }
        Link::Show(args) => {
            let link = labs::connect(lab)?.call(&ShowLink { link: args.link.word().into() })?;
            if args.json { print_json(&link)? } else { print(&show_text(&link))? }
        }
        Link::Set(args) => {
            if let Some(on) = &args.on {
                return elsewhere::set_link(lab, &args.link(), &change(args)?, on);
            }
            let change = change(args)?;
            labs::connect(lab)?.call(&SetLink { link: args.link().into(), change })?;
        }
        Link::Create(args) => {
            let request = NewLink {
                a: args.a.clone(),
                b: args.b.clone(),
                name: args.name.clone(),
                addresses: args.addresses.clone(),
                macs: args.macs.clone(),
                settings: args.settings(),
            };
            let made = labs::connect(lab)?.call(&CreateLink { new: request })?;
            notes(&made.notes);
            print(&format!("{}\n", made.name))?;
        }
        Link::Delete(args) => {
            notes(&labs::connect(lab)?.call(&DeleteLink { link: args.word().into() })?.notes)
        }
        Link::Fates(args) => fates::follow(&labs::connect(lab)?, args)?,
    }
    Ok(0)
}

/// What is to change.
fn change(args: &LinkSet) -> Result<LinkSettings> {
    let settings = args.settings();
    if settings.is_empty() && !args.clear && args.up().is_none() {
        let words = "nothing to change; give --delay, --loss or another impairment, --clear, --down \
                     or --up";
        return Err(Usage(words.into()).into());
    }
    let end = args.end.map(|end| match end {
        End::A => 0,
        End::B => 1,
    });
    Ok(LinkSettings { end, clear: args.clear, settings, up: args.up() })
}

pub(super) fn state(link: &LinkStatus) -> &'static str {
    match (link.up, link.down) {
        (true, _) => "up",
        (false, true) => "down by hand",
        (false, false) => "down",
    }
}

fn list_text(links: &[LinkStatus]) -> String {
    let head = ["LINK", "STATE", "ENDS", "WIRE", "IMPAIRMENTS"];
    let row = |link: &LinkStatus| {
        vec![
            link.name.clone(),
            state(link).into(),
            link.ends.join(" "),
            or_dash(link.wire.as_ref(), figures::wire_state),
            impairments(link),
        ]
    };
    table(&head, links.iter().map(row).collect())
}

/// Impairments of a link, listed once if both directions are equal.
fn impairments(link: &LinkStatus) -> String {
    let Some(wire) = &link.wire else { return "-".into() };
    match wire.directions.as_slice() {
        [Some(a), Some(b)] if a.impairments == b.impairments => figures::impairments(a),
        _ => {
            let one = |d: &DirectionView| format!("from {}: {}", d.from, figures::impairments(d));
            let words: Vec<String> = figures::directions(wire).map(one).collect();
            if words.is_empty() { "-".into() } else { words.join("; ") }
        }
    }
}

fn show_text(link: &LinkStatus) -> String {
    let mut lines = vec![
        ("link", format!("{}: {}", link.name, state(link))),
        ("ends", link.ends.join(" ")),
        ("wire", or_dash(link.wire.as_ref(), figures::wire_state)),
    ];
    let words = |loss: &LossView| format!("{} from {} ({})", loss.packets, loss.from, loss.cause);
    // Those of the wire stand with its other counters.
    let lost = link.lost.iter().filter(|loss| !loss.cause.starts_with("wire: "));
    lines.extend(lost.map(|loss| ("lost", words(loss))));
    let mut text = facts(&lines);
    for direction in link.wire.iter().flat_map(figures::directions) {
        text.push('\n');
        text.push_str(&direction_text(direction));
    }
    text
}

fn direction_text(direction: &DirectionView) -> String {
    let [mean, worst] = direction.late_us;
    facts(&[
        ("from", direction.from.clone()),
        ("impairments", figures::impairments(direction)),
        ("offered", figures::amount(direction.offered_packets, direction.offered_bytes)),
        ("sent", figures::amount(direction.sent_packets, direction.sent_bytes)),
        ("lost", figures::losses(direction)),
        ("held", figures::amount(direction.held_packets, direction.held_bytes)),
        ("duplicated", direction.duplicated.to_string()),
        ("corrupted", direction.corrupted.to_string()),
        ("reordered", direction.reordered.to_string()),
        ("late", format!("{mean:.1} us in the mean, {worst:.1} us at worst")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::samples;

    #[test]
    fn something_is_to_change() {
        let change = |flags: &str| {
            let line = format!("netloom link set l{flags}");
            let cli = <crate::flags::Cli as clap::Parser>::try_parse_from(line.split(' ')).unwrap();
            let crate::flags::Verb::Link(Link::Set(args)) = cli.verb else { panic!("{line}") };
            change(&args)
        };
        let nothing = change(" --end a").unwrap_err();
        assert!(nothing.is::<Usage>(), "{nothing}");
        assert_eq!(change(" --clear").unwrap(), LinkSettings { clear: true, ..Default::default() });
        let delay = vec![("delay".to_owned(), "none".to_owned())];
        let expected = LinkSettings { end: Some(1), settings: delay, ..Default::default() };
        assert_eq!(change(" --end b --delay none").unwrap(), expected);
        let up = |flag| change(flag).unwrap().up;
        assert_eq!((up(" --up"), up(" --down"), up(" --clear")), (Some(true), Some(false), None));
    }

    #[test]
    fn links_are_listed_with_what_they_do() {
        let mut links = samples::status().links;
        let expected = "\
LINK       STATE  ENDS      WIRE                  IMPAIRMENTS
t:eth0--s  up     t:eth0 s  running, restarted 1  from t:eth0: delay 10ms, loss 1%
a:x--b:y   down   a:x b:y   -                     -
";
        assert_eq!(list_text(&links), expected);
        let wire = links[0].wire.as_mut().unwrap();
        wire.directions[1] = wire.directions[0].clone();
        assert_eq!(impairments(&links[0]), "delay 10ms, loss 1%");
        links[0].wire.as_mut().unwrap().directions = vec![None, None];
        assert_eq!(impairments(&links[0]), "-");
    }

    #[test]
    fn all_of_a_link_is_shown() {
        let links = samples::status().links;
        let expected = "\
link  t:eth0--s: up
ends  t:eth0 s
wire  running, restarted 1

from         t:eth0
impairments  delay 10ms, loss 1%
offered      10 (1.0 KiB)
sent         6 (600 B)
lost         3 (loss 1, queue 2)
held         1 (100 B)
duplicated   4
corrupted    5
reordered    6
late         1.5 us in the mean, 20.0 us at worst
";
        assert_eq!(show_text(&links[0]), expected);
        let without = "link  a:x--b:y: down\nends  a:x b:y\nwire  -\n";
        assert_eq!(show_text(&links[1]), without);
        let mut link = links[1].clone();
        let loss = |cause: &str| LossView { from: "a:x".into(), cause: cause.into(), packets: 7 };
        link.lost = vec![loss("interface"), loss("wire: loss")];
        assert_eq!(show_text(&link), format!("{without}lost  7 from a:x (interface)\n"));
    }
}
