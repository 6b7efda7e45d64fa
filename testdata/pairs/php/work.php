<?php

// Handles jobs with the type "pair" until SIGTERM: work.php ADDR TUBE TO

declare(strict_types=1);

namespace Redstalk;

require __DIR__ . '/autoload.php';

[, $address, $tube, $to] = $argv;
$worker = new Worker(new Client($address), $tube);
$worker->on('pair', function (WorkerJob $job) use ($to): array {
    $checkpoint = $job->lastCheckpoint();
    if ($checkpoint === null) {
        $job->checkpoint(['step' => 1]);
        $job->progress('1/2');
        throw new \RuntimeException("first try of $to");
    }
    $stats = $job->stats;

    return [
        'to' => $to,
        'from' => $job->data['from'],
        'n' => $job->data['n'] + 1,
        'text' => $job->data['text'],
        'step' => $checkpoint['step'],
        'key' => $stats->key,
        'request' => $stats->meta['request'],
        'type' => $stats->meta['content-type'],
        'trace' => $stats->trace,
        'group' => $stats->group,
        'batch' => $stats->batch,
        'reason' => $stats->reason,
    ];
});
$worker->run();
