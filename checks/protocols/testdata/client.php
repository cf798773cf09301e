<?php
// Gives the commands of redisclients_test.go by phpredis. Arguments: host, port, token.
$client = new Redis();
$client->connect($argv[1], (int) $argv[2]);
$client->auth($argv[3]);

// phpredis throws an exception for some errors, and returns false for others.
function failed(Redis $client, ...$command): string
{
    try {
        $client->clearLastError();
        $client->rawCommand(...$command);
        $text = $client->getLastError();
    } catch (RedisException $e) {
        $text = $e->getMessage();
    }

    return "error " . preg_replace('/^ERR /', '', explode(": this server", $text)[0]) . "\n";
}

foreach ([[], [3], [100]] as $quantity) {
    echo implode(" ", $client->rawCommand("CL.THROTTLE", "user123", 15, 30, 60, ...$quantity)), "\n";
}
foreach ([1, 3] as $cost) {
    $reply = $client->rawCommand("SLUICE.CHECK", "pair", "192.0.2.1", "COST", "COST", $cost);
    $verdict = [];
    for ($i = 0; $i < count($reply); $i += 2) {
        $verdict[$reply[$i]] = $reply[$i + 1];
    }
    echo $verdict["allowed"] ? "remaining $verdict[remaining]" : "denied $verdict[reason]", "\n";
}
echo failed($client, "CL.THROTTLE", "user123", 15, 0, 60), failed($client, "get", "x");
$pipe = $client->multi(Redis::PIPELINE);
for ($i = 0; $i < 4; $i++) {
    $pipe->rawCommand("CL.THROTTLE", "pipelined", 2, 1, 3600);
}
echo "pipelined ", implode(" ", array_column($pipe->exec(), 0)), "\n";
$transaction = $client->multi();
for ($i = 0; $i < 4; $i++) {
    $transaction->rawCommand("CL.THROTTLE", "transaction", 2, 1, 3600);
}
echo "transaction ", implode(" ", array_column($transaction->exec(), 0)), "\n";
$client->multi();
$client->rawCommand("CL.THROTTLE", "aborted", 1, 1, 3600);
$client->rawCommand("get", "x");
try {
    $client->rawCommand("exec"); // phpredis itself does not send EXEC after an error
} catch (RedisException $e) {
}
echo "aborted\n";
$client->close();
$client->connect($argv[1], (int) $argv[2]);
$client->auth($argv[3]);
echo "left ", $client->rawCommand("CL.THROTTLE", "aborted", 1, 1, 3600, 0)[2], "\n";
$client->clearLastError();
try {
    $client->ttl("x");
    $text = $client->getLastError();
} catch (RedisException $e) {
    $text = $e->getMessage();
}
echo "instead of ttl: ", rtrim(explode("; ", $text)[1]), "\n";
