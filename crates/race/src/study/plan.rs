//! Conversion of a study's race to a request for a race.

use crate::race::Request;
use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use deadheat_base::units;
use deadheat_result::study::model::{RacePlan, Study};
use deadheat_result::study::outcome::Setting;

/// Returns the maximum duration of all races together at a setting; `None` if one has no limit. Races in
/// virtual time do not count: they take seconds, and their budgets are in virtual time.
pub fn at_most(study: &Study, setting: Setting) -> Option<Nanos> {
    let races = study.races.iter().map(|race| race.at(setting));
    let budgets = races.filter(|race| !is_simulated(race));
    let budgets = budgets.map(|race| request(&race).ok()?.asked().budget_ns);
    budgets.sum::<Option<u64>>().map(Nanos)
}

/// Returns true if a race of it runs in virtual time.
pub fn has_simulated_races(study: &Study) -> bool {
    study.races.iter().any(is_simulated)
}

/// Returns true if the race runs in virtual time.
fn is_simulated(plan: &RacePlan) -> bool {
    request(plan).is_ok_and(|request| request.is_simulated())
}

/// Returns the request for a race, unchecked. It may name neither files nor commands unless
/// [`Request::written_in`] allows them.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] if a duration or a share cannot be parsed.
pub fn request(plan: &RacePlan) -> Result<Request> {
    // A study defines its own comparisons, which may include a floor.
    let mut request = Request::new(plan.contenders.clone())
        .workload(&plan.workload)
        .claims_all()
        .with(plan.path.as_ref(), Request::path)
        .with(plan.placement.as_ref(), Request::placement)
        .with(plan.blocks, Request::blocks)
        .with(plan.budget.as_deref().map(units::parse_span).transpose()?, Request::budget)
        .with(plan.every.as_deref().map(units::parse_span).transpose()?, Request::every)
        .with(plan.margin.as_deref().map(units::parse_share).transpose()?, Request::margin)
        .when(plan.all_blocks, Request::all_blocks)
        .when(plan.as_deployed, Request::as_deployed)
        .when(plan.explain, Request::explain);
    for (name, levels) in &plan.vary {
        request = request.vary(name, levels.clone());
    }
    Ok(request.written_in("the study", &[]))
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    const STUDY: &str = r#"
title = "Echoes"
question = "Which one is quicker?"
[[race]]
id = "both"
variant = "done_right"
about = "Echoes under two placements."
contenders = ["tcp", "udp"]
workload = "ping:count=200"
path = "delay=5ms + delay=1ms"
vary.placement = ["busy", "host"]
vary.size = ["64", "1kB"]
blocks = 40
budget = "5m"
margin = "5%"
quick = { blocks = 8, path = "delay=1ms", workload = "ping:count=50", vary = { size = ["64", "512"] } }
"#;

    #[test]
    fn the_quick_setting_replaces_what_it_names() {
        let checked = read::study(STUDY, "x.toml").unwrap();
        let plan = &checked.study.races[0];
        assert_eq!(plan.at(Setting::Full), *plan);
        let quick = plan.at(Setting::Quick);
        assert_eq!((quick.blocks, quick.workload.as_str()), (Some(8), "ping:count=50"));
        assert_eq!(quick.budget, plan.budget);
        assert_eq!(quick.path.as_deref(), Some("delay=1ms"));
        assert_eq!(quick.vary["size"], ["64", "512"]);
        assert_eq!(quick.vary["placement"], ["busy", "host"]);
    }

    #[test]
    fn the_time_that_a_study_may_take_is_that_of_its_races() {
        let at_most = |text: &str| {
            let study = read::study(text, "x.toml").unwrap().study;
            [Setting::Full, Setting::Quick].map(|setting| at_most(&study, setting))
        };
        let quick = STUDY.replace("quick = {", "quick = { budget = \"30s\",");
        let five = Some(Nanos::from_secs(300));
        assert_eq!(at_most(&quick), [five, Some(Nanos::from_secs(30))]);
        assert_eq!(at_most(STUDY), [five, five]);
        assert_eq!(at_most(&STUDY.replace("budget = \"5m\"\n", "")), [None, None]);
        let virtually =
            "contenders = [\"arq\"]\nworkload = \"ping\"\npath = \"sim:delay=1ms\"\nblocks = 9\n";
        let race = "[[race]]\nid = \"sim\"\nvariant = \"beyond\"\nabout = \"Echoes.\"\n";
        assert_eq!(at_most(&format!("{STUDY}{race}{virtually}")), [five, five]);
    }

    #[test]
    fn the_command_is_what_the_race_asks() {
        let checked = read::study(STUDY, "x.toml").unwrap();
        assert_eq!(
            checked.study.races[0].command(),
            "deadheat race tcp udp --workload ping:count=200 --path 'delay=5ms + delay=1ms' --blocks 40 \
             --budget 5m --margin 5% --vary 'placement=busy|host' --vary 'size=64|1kB'"
        );
        let deployed = STUDY.replace("blocks = 40", "as_deployed = true");
        let race = &read::study(&deployed, "x.toml").unwrap().study.races[0];
        assert!(race.command().ends_with(" --as-deployed"), "{}", race.command());
        assert!(request(race).unwrap().asked().as_deployed);
    }
}
