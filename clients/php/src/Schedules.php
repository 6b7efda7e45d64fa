<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Internal\Command;
use Redstalk\Internal\Connection;
use Redstalk\Internal\Page;
use Redstalk\Internal\Text;

/** Schedules: the server keeps them, and puts a job at each of their times, once. They need schedules. */
final class Schedules
{
    public function __construct(private readonly Client $client)
    {
    }

    /**
     * Creates a schedule, or replaces the one with that name; its tube cannot change. While its times stay the same it goes on as before,
     * so a program can do this at each start.
     *
     * @param PutOptions $options of its jobs, without at and onDuplicate
     * @throws Exception\InvalidArgumentException also for an invalid expression or zone, and another tube
     */
    public function set(string $name, string $tube, string $body, Times $times, PutOptions $options = new PutOptions()): void
    {
        if ($options->at !== null || $options->onDuplicate !== null) {
            throw new InvalidArgumentException('the jobs of a schedule have neither at nor onDuplicate');
        }
        $start = sprintf('set-schedule %s %s %d %d %d', Text::tube($name), Text::tube($tube), $options->priority, max($options->ttr, 1), strlen($body));
        $delay = $options->delay > 0 ? ' delay:' . Text::duration($options->delay) : '';
        $this->client->exec(fn (Connection $c) => new Command(
            $start . $times->tags() . $delay . $options->tagsFor($c->capabilities, 'set-schedule'),
            $body,
            needs: 'schedules',
            repeat: true,
        ))->expect('set-schedule', 'SET');
    }

    /** @return ?array<string, mixed> what it puts and when, and what came of it; null if there is none */
    public function get(string $name): ?array
    {
        $reply = $this->client->exec(Command::query('get-schedule ' . Text::tube($name), 'schedules'));

        return $reply->word === 'NOT_FOUND' ? null : Page::values((string) $reply->expect('get-schedule', 'OK')->body);
    }

    /**
     * Lists the schedules by name: name, tube, cron or every, paused, next-ms, put, missed, …
     *
     * @return \Generator<array<string, mixed>>
     */
    public function all(): \Generator
    {
        $next = '';
        do {
            $reply = $this->client->exec(Command::query(rtrim("list-schedules 100 $next"), 'schedules'));
            [$rows, $next] = Page::rows((string) $reply->expect('list-schedules', 'OK')->body);
            yield from $rows;
        } while ($next !== '');
    }

    /** Deletes a schedule. Its jobs stay. */
    public function delete(string $name): void
    {
        $this->do('delete-schedule', $name, 'DELETED', false);
    }

    public function pause(string $name): void
    {
        $this->do('pause-schedule', $name, 'PAUSED');
    }

    /** Starts a paused schedule again. Times that have passed meanwhile are skipped. */
    public function resume(string $name): void
    {
        $this->do('resume-schedule', $name, 'RESUMED');
    }

    /** Puts a job of a schedule now. If the job before prevents that, the receipt is that job with its state. */
    public function run(string $name): Receipt
    {
        [$id, $state] = explode(' ', $this->do('run-schedule', $name, 'INSERTED', false), 2) + [1 => ''];

        return new Receipt((int) $id, $state);
    }

    /** @return list<\DateTimeImmutable> the next times of a schedule */
    public function preview(string $name, int $count = 10): array
    {
        return $this->times(Text::tube($name) . " $count");
    }

    /** @return list<\DateTimeImmutable> the next times of a cron expression */
    public function previewCron(string $cron, int $count = 10, string $tz = 'UTC'): array
    {
        return $this->times(Text::quote($cron) . " $count tz:" . Text::value($tz));
    }

    private function do(string $verb, string $name, string $word, bool $repeat = true): string
    {
        return $this->client->exec(new Command("$verb " . Text::tube($name), needs: 'schedules', repeat: $repeat))->expect($verb, $word)->args;
    }

    /** @return list<\DateTimeImmutable> */
    private function times(string $what): array
    {
        $reply = $this->client->exec(Command::query("preview-schedule $what", 'schedules'))->expect('preview-schedule', 'OK');

        return array_map(fn ($time) => new \DateTimeImmutable($time), Page::names((string) $reply->body));
    }
}
