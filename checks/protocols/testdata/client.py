# Gives the commands of redisclients_test.go by redis-py. Arguments: host, port, token.
import sys

import redis

client = redis.Redis(sys.argv[1], int(sys.argv[2]), password=sys.argv[3], client_name="test", decode_responses=True)


def throttle(*args):
    return client.execute_command("CL.THROTTLE", *args)


def failed(run):
    try:
        run()
    except redis.ResponseError as e:
        return "error " + str(e).split(": this server")[0]


print(*throttle("user123", 15, 30, 60))
print(*throttle("user123", 15, 30, 60, 3))
print(*throttle("user123", 15, 30, 60, 100))
for cost in 1, 3:
    reply = client.execute_command("SLUICE.CHECK", "pair", "192.0.2.1", "COST", "COST", cost)
    verdict = dict(zip(reply[::2], reply[1::2]))
    print(f"remaining {verdict['remaining']}" if verdict["allowed"] else f"denied {verdict['reason']}")
print(failed(lambda: throttle("user123", 15, 0, 60)))
print(failed(lambda: client.execute_command("get", "x")))
with client.pipeline(transaction=False) as p:
    for _ in range(4):
        p.execute_command("CL.THROTTLE", "pipelined", 2, 1, 3600)
    print("pipelined", *(reply[0] for reply in p.execute()))
# By default, a pipeline is a transaction.
with client.pipeline() as p:
    for _ in range(4):
        p.execute_command("CL.THROTTLE", "transaction", 2, 1, 3600)
    print("transaction", *(reply[0] for reply in p.execute()))
with client.pipeline() as p:
    p.execute_command("CL.THROTTLE", "aborted", 1, 1, 3600)
    p.execute_command("get", "x")
    try:
        p.execute()
    except redis.ResponseError as e:
        print("aborted" if "unknown command" in str(e) else e)
print("left", throttle("aborted", 1, 1, 3600, 0)[2])
try:
    client.ttl("x")
except redis.ResponseError as e:
    print("instead of ttl:", str(e).split("; ")[1])
