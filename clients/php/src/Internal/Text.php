<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Redstalk\Exception\InvalidArgumentException;

/** @internal Values as the protocol has them. */
final class Text
{
    /** The longest reason of a failure in bytes. */
    private const MAX_REASON = 512;

    /** A character of UTF-8 that is no control character but a tab or a newline. */
    private const CHARACTER = '/[\x20-\x7E\n\t]|\xC2[\xA0-\xBF]|[\xC3-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]'
        . '|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]'
        . '|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2}/';

    /** Returns the name of a tube if it is valid. */
    public static function tube(string $name): string
    {
        if (!preg_match('~^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}$~D', $name)) {
            throw new InvalidArgumentException("invalid tube \"$name\": it must be letters, digits and +/;.\$_()-, not begin with -, and have at most 200 bytes");
        }

        return $name;
    }

    /** Returns a text if it is printable ASCII without space. */
    public static function word(string $text, string $what, int $max): string
    {
        if (!preg_match('/^[!-~]+$/D', $text) || strlen($text) > $max) {
            throw new InvalidArgumentException("invalid $what \"$text\": it must be printable ASCII without spaces, at most $max bytes");
        }

        return $text;
    }

    /** Returns UTF-8 text as the value of a tag. */
    public static function quote(string $text): string
    {
        if (!preg_match('/^[^\x00-\x08\x0B-\x1F\x7F\x{80}-\x{9F}]*$/Du', $text)) {
            throw new InvalidArgumentException('a value of a tag has control characters, or is not UTF-8');
        }

        return '"' . strtr($text, ['\\' => '\\\\', '"' => '\"', "\n" => '\n', "\t" => '\t']) . '"';
    }

    /** Returns the beginning of a text as the server accepts it for a reason: UTF-8 without control characters. */
    public static function reason(string $text): string
    {
        preg_match_all(self::CHARACTER, substr($text, 0, self::MAX_REASON), $valid);

        return implode('', $valid[0]);
    }

    /**
     * Returns a value as JSON.
     *
     * @throws InvalidArgumentException
     */
    public static function json(mixed $value): string
    {
        $text = json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION);

        return $text === false ? throw new InvalidArgumentException('the value is no JSON: ' . json_last_error_msg()) : $text;
    }

    /** Returns seconds as a DURATION, in whole milliseconds. */
    public static function duration(float $seconds): string
    {
        $ms = (int) round(max($seconds, 0) * 1000);

        return $ms % 1000 === 0 ? intdiv($ms, 1000) . 's' : "{$ms}ms";
    }

    /**
     * Returns tags of a command, each with a space before.
     *
     * @param array<string, string|int> $tags
     */
    public static function tags(array $tags): string
    {
        $line = '';
        foreach ($tags as $name => $value) {
            if (!is_scalar($value)) {
                throw new InvalidArgumentException("the value of $name must be text or a number");
            }
            $line .= ' ' . self::word($name, 'tag', 128) . ':' . self::value((string) $value);
        }

        return $line;
    }

    /** Returns a text as it is if it can be a word, or else in quotes. */
    public static function value(string $text): string
    {
        return preg_match('/^[!#-~][!-~]*$/D', $text) ? $text : self::quote($text);
    }
}
