//! A race of a study at a setting, and the command that runs it alone.

use super::model::RacePlan;
use super::outcome::Setting;
use crate::command::CommandWords;

impl RacePlan {
    /// Returns the race at a setting.
    pub fn at(&self, setting: Setting) -> RacePlan {
        let mut plan = self.clone();
        if setting == Setting::Full {
            return plan;
        }
        let quick = std::mem::take(&mut plan.quick);
        if let Some(workload) = quick.workload {
            plan.workload = workload;
        }
        plan.path = quick.path.or(plan.path);
        plan.blocks = quick.blocks.or(plan.blocks);
        plan.budget = quick.budget.or(plan.budget);
        plan.every = quick.every.or(plan.every);
        plan.vary.extend(quick.vary);
        plan
    }

    /// Returns the shell command that runs the race without its study.
    pub fn command(&self) -> String {
        let mut words = CommandWords::new(&self.contenders);
        let blocks = self.blocks.map(|blocks| blocks.to_string());
        let options = [
            ("workload", Some(&self.workload)),
            ("path", self.path.as_ref()),
            ("placement", self.placement.as_ref()),
            ("blocks", blocks.as_ref()),
            ("budget", self.budget.as_ref()),
            ("margin", self.margin.as_ref()),
            ("every", self.every.as_ref()),
        ];
        for (option, value) in options {
            value.into_iter().for_each(|value| words.option(option, value));
        }
        self.vary.iter().for_each(|(name, levels)| words.vary(name, levels));
        if self.all_blocks {
            words.switch("--all-blocks");
        }
        if self.as_deployed {
            words.switch("--as-deployed");
        }
        if self.explain {
            words.switch("--explain");
        }
        words.line()
    }
}
