<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\TestCase;
use Redstalk\Inspector;
use Redstalk\Job;
use Redstalk\PutOptions;
use Redstalk\Times;

/** The options of puts and schedules and the tags that the server knows are the same. Policies and groups take any tags. */
final class FieldsTest extends TestCase
{
    public function testOptions(): void
    {
        $capabilities = array_fill_keys(['put-tags', 'meta', 'expire', 'backoff', 'groups', 'batches', 'results'], true);
        $put = new PutOptions(...self::every(PutOptions::class));
        $tags = self::names($put->line(0, $capabilities) . $put->with(at: null)->line(0, $capabilities));
        self::assertSame(self::known('put'), $tags);

        $ofJobs = array_diff($tags, ['at', 'on-duplicate']); // which Schedules::set() refuses
        $times = new Times(...self::every(Times::class));
        self::assertSame(self::known('set-schedule'), self::names(' ' . implode(': ', $ofJobs) . ':' . $times->tags()));
    }

    public function testArguments(): void
    {
        $classes = ['release' => Job::class, 'bury' => Job::class, 'touch' => Job::class, 'kick' => Inspector::class, 'kick-job' => Inspector::class, 'replay-job' => Inspector::class];
        foreach ($classes as $command => $class) {
            $method = new \ReflectionMethod($class, match ($command) { 'kick-job' => 'kickJob', 'replay-job' => 'replay', default => $command });
            $arguments = array_map(fn ($parameter) => $parameter->getName(), $method->getParameters());
            foreach (array_diff(self::known($command), ['failure']) as $tag) { // which is giveBack()
                self::assertContains(lcfirst(str_replace('-', '', ucwords($tag, '-'))), $arguments, $command);
            }
        }
    }

    /** @return array<string, mixed> a value for each argument of a constructor */
    private static function every(string $class): array
    {
        $values = [];
        foreach ((new \ReflectionMethod($class, '__construct'))->getParameters() as $parameter) {
            $type = ltrim((string) $parameter->getType(), '?');
            $values[$parameter->getName()] = match ($type) {
                'int' => 1,
                'float' => 1.5,
                'array' => ['name' => 'value'],
                'DateTimeInterface' => new \DateTimeImmutable(),
                default => enum_exists($type) ? $type::cases()[0] : '1',
            };
        }

        return $values;
    }

    /** @return list<string> the sorted names of the tags in a line */
    private static function names(string $line): array
    {
        preg_match_all('/ ([a-z-]+):/', $line, $found);

        return self::sorted($found[1]);
    }

    /** @return list<string> the sorted names of the tags that the server knows in a command */
    private static function known(string $command): array
    {
        $fields = json_decode((string) shell_exec(escapeshellarg(Server::program()) . ' --fields'), true, flags: JSON_THROW_ON_ERROR);

        return self::sorted(array_column(array_filter($fields, fn ($field) => in_array($command, $field['in'], true)), 'name'));
    }

    /**
     * @param list<string> $names
     * @return list<string>
     */
    private static function sorted(array $names): array
    {
        $names = array_unique($names);
        sort($names);

        return $names;
    }
}
