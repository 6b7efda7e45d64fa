<?php

declare(strict_types=1);

namespace Redstalk\Internal;

/** @internal Reads the pages of the protocol, which are a small part of YAML. */
final class Page
{
    private const QUOTED = '"(?:\\\\.|[^"\\\\])*"';

    /**
     * Reads a page of lines "key: value".
     *
     * @return array<string, mixed>
     */
    public static function values(string $page): array
    {
        $values = [];
        foreach (explode("\n", $page) as $line) {
            [$key, $value] = explode(':', rtrim($line, "\r"), 2) + [1 => null];
            if ($value !== null && !str_starts_with($key, '-')) {
                $values[$key] = self::value(ltrim($value));
            }
        }

        return $values;
    }

    /**
     * Reads a page of lines "- name".
     *
     * @return list<string>
     */
    public static function names(string $page): array
    {
        preg_match_all('/^- (.+?)\r?$/m', $page, $found);

        return array_map(fn ($name) => (string) self::value($name), $found[1]);
    }

    /**
     * Reads a page of a list: its rows, and the cursor of the next page, which is empty at the end.
     *
     * @return array{list<array<string, mixed>>, string}
     */
    public static function rows(string $page): array
    {
        preg_match('/^next: (.*?)\r?$/m', $page, $next);
        preg_match_all('/^- (\{.*\})\r?$/m', $page, $found);

        return [array_map(self::map(...), $found[1]), (string) self::value($next[1] ?? '')];
    }

    /** @return array<string, mixed> */
    private static function map(string $text): array
    {
        $list = '\[(?:' . self::QUOTED . '|[^]"])*\]';
        preg_match_all('/([\w.-]+): (' . self::QUOTED . "|$list|[^\" \\[]*?)(?=, |\\}\$)/", $text, $found, PREG_SET_ORDER);
        $map = [];
        foreach ($found as [, $key, $value]) {
            $map[$key] = self::value($value);
        }

        return $map;
    }

    private static function value(string $text): mixed
    {
        return match (true) {
            $text === '' => '',
            $text[0] === '{' => self::map($text),
            $text[0] === '"', $text[0] === '[' => json_decode($text, true) ?? $text,
            $text === 'true', $text === 'false' => $text === 'true',
            (bool) preg_match('/^\d{1,18}$/D', $text) => (int) $text,
            default => $text,
        };
    }
}
