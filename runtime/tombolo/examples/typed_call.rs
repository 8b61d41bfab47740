//! The least typed call, over the interface `interfaces/echo.tbl`: `tombolo run --on host,arm0
//! typed_call.tbi`

use tombolo::interface::{Call, Decline, Never, Response, Service, Turn};
use tombolo::{Domain, Error};
use tombolo_stubs::echo::{
    Echo, EchoClient, EchoEcho, EchoEchoReply, EchoEchoRequest, EchoHandler, EchoNull, EchoNullReply,
};

struct Server {
    last: Vec<u8>,
}

impl EchoHandler for Server {
    fn null(&mut self, _: Call<'_, EchoNull>) -> Result<Response<EchoNullReply>, Decline<Never>> {
        Ok(EchoNullReply {}.into())
    }

    fn echo<'s>(
        &'s mut self,
        call: Call<'_, EchoEcho>,
    ) -> Result<Response<EchoEchoReply<'s>>, Decline<Never>> {
        self.last = call.data()?.to_vec();
        Ok(EchoEchoReply { data: &self.last }.into())
    }
}

fn main() -> Result<(), Error> {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    if job.rank() == 0 {
        let mut service = Service::<Echo>::export(&domain, &job.name("echo"))?;
        let mut server = Server { last: Vec::new() };
        while !matches!(service.serve_one(&mut server)?, Turn::Left(..)) {}
    } else {
        let mut client = EchoClient::connect(&domain, &job.name("echo"))?;
        let reply = client.echo(&EchoEchoRequest { data: b"hello" })?;
        println!("{}", String::from_utf8_lossy(&reply.data()?.to_vec()));
    }
    Ok(())
}
