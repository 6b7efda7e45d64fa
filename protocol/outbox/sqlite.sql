CREATE TABLE IF NOT EXISTS %[1]s (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    token   TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    tube    TEXT NOT NULL,
    pri     INTEGER NOT NULL DEFAULT 1024 CHECK (typeof(pri) = 'integer' AND pri BETWEEN 0 AND 4294967295),
    delay   INTEGER NOT NULL DEFAULT 0 CHECK (typeof(delay) = 'integer' AND delay BETWEEN 0 AND 4294967295),
    ttr     INTEGER NOT NULL DEFAULT 60 CHECK (typeof(ttr) = 'integer' AND ttr BETWEEN 0 AND 4294967295),
    body    BLOB NOT NULL,
    tags    TEXT NOT NULL DEFAULT '',
    created TEXT NOT NULL DEFAULT (strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')),
    error   TEXT
);
