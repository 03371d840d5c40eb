//! Steps of `expect`.

use netloom_impair::Share;

use super::node::via;
use super::tree::{Body, Yaml};
use crate::impairment::text::{bits_per_second, duration, share};
use crate::keys::expect::{ARRIVES, EXPECT, LOST, OUTPUT};
use crate::lab::expect::{
    Action, Between, Loss, Output, Pairs, Rate, Route, RouteTarget, Step, What,
};
use crate::lab::expect::{LASTING, PACKETS};

pub(super) fn step(step: &Step) -> Yaml {
    let mut body = Body::default();
    body.text("name", step.name.as_deref());
    if !step.within.is_zero() {
        body.put("within", Yaml::word(duration(step.within)));
    }
    let (key, value) = match &step.what {
        What::Reaches(of) => ("reaches", pairs(of)),
        What::CannotReach(of) => ("cannot-reach", pairs(of)),
        What::Route(of) => ("route", route(of)),
        What::NoRoute(of) => ("no-route", route(of)),
        What::Loss(of) => ("loss", loss(of)),
        What::Rate(of) => ("rate", bits(of)),
        What::Output(of) => ("output", output(of)),
        What::Fidelity(limit) => ("fidelity", Yaml::word(duration(*limit))),
        What::Do(of) => ("do", action(of)),
    };
    body.put(key, value);
    body.in_order(&EXPECT)
}

fn texts(all: &[String]) -> Yaml {
    Yaml::one_or_list(all.iter().map(Yaml::text).collect())
}

fn family(body: &mut Body, only: Option<u8>) {
    body.text("family", only.map(|version| format!("ipv{version}")));
}

fn pairs(pairs: &Pairs) -> Yaml {
    let (from, to) = (texts(&pairs.from), texts(&pairs.to));
    if pairs.only.is_none() {
        return Yaml::List(vec![from, to]);
    }
    let mut body = Body::default();
    body.put("from", from);
    body.put("to", to);
    family(&mut body, pairs.only);
    Yaml::Map(body.0)
}

fn route(route: &Route) -> Yaml {
    let mut body = Body::default();
    body.put("node", Yaml::text(&route.node));
    body.put(
        "to",
        Yaml::text(match &route.to {
            RouteTarget::Address(address) => address.to_string(),
            RouteTarget::Prefix(prefix) => prefix.to_string(),
            RouteTarget::Node(node) => node.clone(),
        }),
    );
    body.some("via", route.via.as_ref().map_or_else(Yaml::none, via));
    body.text("dev", route.dev.as_deref());
    Yaml::Map(body.0)
}

fn between(between: &Between) -> Body {
    let mut body = Body::default();
    body.put("from", Yaml::text(&between.from));
    body.put("to", Yaml::text(&between.to));
    if between.lasting != LASTING {
        body.put("lasting", Yaml::word(duration(between.lasting)));
    }
    family(&mut body, between.only);
    body
}

fn loss(loss: &Loss) -> Yaml {
    let mut body = between(&loss.between);
    body.plain("below", loss.below.map(|parts| share(Share(parts))));
    body.plain("above", loss.above.map(|parts| share(Share(parts))));
    body.unless("packets", &loss.packets, &PACKETS);
    body.in_order(&LOST)
}

fn bits(of: &Rate) -> Yaml {
    let mut body = between(&of.between);
    body.plain("above", of.above.map(bits_per_second));
    body.plain("below", of.below.map(bits_per_second));
    body.in_order(&ARRIVES)
}

fn output(output: &Output) -> Yaml {
    let mut body = Body::default();
    body.put("node", Yaml::text(&output.node));
    body.put("command", Yaml::texts(&output.command));
    body.some("contains", texts(&output.contains));
    body.some("lacks", texts(&output.lacks));
    body.text("equals", output.equals.as_deref());
    body.unless("code", &output.code, &0);
    body.in_order(&OUTPUT)
}

fn action(action: &Action) -> Yaml {
    let one = |key: &str, value| Yaml::Map(vec![(key.to_owned(), value)]);
    match action {
        Action::Down(link) => one("down", Yaml::text(link)),
        Action::Up(link) => one("up", Yaml::text(link)),
        Action::Set(link, settings) => {
            let settings = settings.iter().map(|(key, text)| (key.clone(), Yaml::text(text)));
            one("set", one(link, Yaml::Map(settings.collect())))
        }
        Action::Exec(node, command) => one("exec", one(node, Yaml::texts(command))),
        Action::Wait(time) => one("wait", Yaml::word(duration(*time))),
    }
}
