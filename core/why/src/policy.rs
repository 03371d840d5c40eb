//! Rules of policy routing that refuse packets, and routes of tables that such rules lead to.

use ipnet::IpNet;

use crate::cause::{Cause, CauseName};
use crate::facts::{Discarding, Facts, Node, Refusal};
use crate::routes::table_name;
use crate::walk::Walker;

impl<F: Facts> Walker<'_, F> {
    /// A rule of policy routing, or a route of a table that such a rule leads to.
    pub(crate) fn by_policy(
        &mut self,
        node: &Node,
        came: Option<&str>,
        refusal: Refusal,
    ) -> Result<Option<Cause>, F::Error> {
        let (to, name) = (self.flow.destination, &node.name);
        let (cause, kind) = match refusal {
            Refusal::Invalid => (CauseName::BlackholeRoute, "blackhole"),
            Refusal::Unreachable => (CauseName::UnreachableRoute, "unreachable"),
            Refusal::Prohibited => (CauseName::ProhibitRoute, "prohibit"),
            // An `unreachable` rule answers as if there were no route (`fib4_rule_action`).
            Refusal::NoRoute => (CauseName::NoRoute, "unreachable"),
            Refusal::ReversePath => return Ok(None),
        };
        let by_rule_alone = refusal == Refusal::NoRoute;
        let place = format!("node {name}");
        let all = self.facts.discarding(name, to)?;
        let fitting = all.iter().filter(|r| r.kind == kind && r.to.contains(&to));
        if let Some(Discarding { to: prefix, table, .. }) =
            fitting.max_by_key(|r| r.to.prefix_len()).filter(|_| !by_rule_alone)
        {
            let shown = table_name(*table);
            let text = format!(
                "a {kind} route of table {shown} of node {name} discards packets from {}",
                self.flow.source
            );
            let cause = Cause::new(cause, place, text)
                .evidence(format!(
                    "{kind} {prefix} in table {shown} of node {name}, to which a rule leads"
                ))
                .mend(self.exec(name, &format!("ip route del {kind} {prefix} table {shown}")));
            return Ok(Some(cause));
        }
        let of_kind: Vec<&String> = node
            .refusing_rules
            .iter()
            .filter(|words| self.may_refuse(words, kind, came, by_rule_alone))
            .collect();
        if of_kind.is_empty() {
            return Ok(None);
        }
        let text = format!(
            "a rule of policy routing in node {name} refuses packets from {} to {to}",
            self.flow.source
        );
        let mut found = Cause::new(CauseName::RefusingRule, place, text);
        found.evidence = of_kind.iter().map(|words| format!("rule {words}")).collect();
        if let [one] = of_kind.as_slice()
            && let Some((priority, _)) = one.split_once(':')
        {
            found = found.mend(self.exec(name, &format!("ip rule del pref {priority}")));
        }
        Ok(Some(found))
    }

    /// Whether a rule, as `ip rule` says it, refuses packets of the flow; `surely`: also where it has a selector that is not known
    /// here, it does not count.
    fn may_refuse(&self, rule: &str, kind: &str, came: Option<&str>, surely: bool) -> bool {
        let Some((_, rest)) = rule.split_once(": ") else { return false };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some((&last, selectors)) = words.split_last() else { return false };
        if last != kind || selectors.len() % 2 == 1 {
            return last == kind && !surely;
        }
        let covers = |prefix: &str, address| {
            prefix == "all" || prefix.parse::<IpNet>().is_ok_and(|net| net.contains(&address))
        };
        let (from, to) = (self.flow.source, self.flow.destination);
        selectors.chunks_exact(2).all(|pair| match (pair[0], pair[1]) {
            ("from", prefix) => covers(prefix, from),
            ("to", prefix) => covers(prefix, to),
            // A node's own packets have `lo` as theirs.
            ("iif", name) => name == came.unwrap_or("lo"),
            _ => !surely,
        })
    }
}
