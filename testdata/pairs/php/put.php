<?php

// Puts a job with a type, waits for its end, and prints its result: put.php ADDR TUBE FROM

declare(strict_types=1);

namespace Redstalk;

require __DIR__ . '/autoload.php';

[, $address, $tube, $from] = $argv;
$client = new Client($address);
$receipt = $client->putTyped($tube, 'pair', ['from' => $from, 'n' => 7, 'text' => "é\n"], new PutOptions(
    key: "pair-$from-$tube",
    meta: ['request' => '4711'],
    trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    batch: "batch-$tube",
    group: 'acme',
    keep: 3600,
    retry: [0, 0],
));
$end = $client->wait($receipt->id, 60);
if (!$end?->isDone()) {
    fwrite(STDERR, $end === null ? "the job has not ended\n" : "the job is $end->how: $end->body\n");
    exit(1);
}
echo json_encode($end->json(), JSON_THROW_ON_ERROR), "\n";
