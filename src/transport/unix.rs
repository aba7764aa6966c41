//! stub
use super::*;
pub struct UnixStream;
impl Transport for UnixStream {
    fn info(&self) -> &'static Info {
        todo!()
    }
    fn check(&self) -> Result<()> {
        todo!()
    }
    fn dial(&self, _: &Dial<'_>) -> Result<Box<dyn Conn>> {
        todo!()
    }
    fn listen(&self, _: Listen<'_>) -> Result<Box<dyn Listener>> {
        todo!()
    }
}
pub struct UnixDatagram;
impl Transport for UnixDatagram {
    fn info(&self) -> &'static Info {
        todo!()
    }
    fn check(&self) -> Result<()> {
        todo!()
    }
    fn dial(&self, _: &Dial<'_>) -> Result<Box<dyn Conn>> {
        todo!()
    }
    fn listen(&self, _: Listen<'_>) -> Result<Box<dyn Listener>> {
        todo!()
    }
}
