"""A service and its clients: `tombolo run --on host:2 PYTHON main.py`"""

import os
import sys

import tombolo

# The classes of greeter.tbl, which lies beside this file.
greeter = tombolo.load_interface(os.path.join(os.path.dirname(os.path.abspath(__file__)), "greeter.tbl"))


class Service(greeter.GreeterHandler):
    """Answers the calls of clients."""

    def __init__(self, node):
        self.node = node
        self.count = 0

    def greet(self, name):
        if not name:
            raise greeter.GreetErrorDeclined(greeter.GreetError.NO_NAME)
        self.count += 1
        return greeter.GreeterGreetReply(f"hello {name}, from {self.node}", self.count)


def serve(domain, name, clients):
    """Rank 0 exports the name and serves one client after the other, each until it leaves."""
    service = Service(domain.node_name)
    with greeter.GreeterServer.export(domain, name) as listener:
        for _ in range(clients):
            greeter.GreeterServer(listener.accept(), service).serve()
    print(f"{service.count} greetings from {service.node}")


def call(domain, name):
    """The others are greeted; an empty name is declined, which is no failure of the call."""
    with greeter.GreeterClient.connect(domain, name) as client:
        print(client.greet(domain.node_name).greeting)
        try:
            client.greet("")
        except greeter.GreetErrorDeclined as declined:
            print("declined:", greeter.GreetError(declined.error).name.lower())


def main():
    domain = tombolo.attach()
    job = domain.job()
    if job.size < 2:
        sys.exit("@name@: start two of me or more: tombolo run --on host:2 PYTHON main.py, with the path of python3")
    name = job.name("greeter")
    if job.rank == 0:
        serve(domain, name, job.size - 1)
    else:
        call(domain, name)


if __name__ == "__main__":
    main()
