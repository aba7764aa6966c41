//! stub
use super::*;
pub struct Ping;
impl Workload for Ping {
    fn info(&self) -> &'static Info {
        todo!()
    }
    fn task(&self, _: &Spec) -> Result<Box<dyn Task>> {
        todo!()
    }
}
