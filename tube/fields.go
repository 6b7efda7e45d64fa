package tube

import (
	"redstalk/tube/field"
	"time"
)

// What package protocol has to know, too, is in package field, and has the same names here.
type (
	Rules       = field.Rules
	Policy      = field.Policy
	Push        = field.Push
	Limits      = field.Limits
	Rates       = field.Rates
	OnDuplicate = field.OnDuplicate
	OnExpire    = field.OnExpire
	GroupOrder  = field.GroupOrder
	Jitter      = field.Jitter
	Lifetime    = field.Lifetime
)

const (
	NotSaid = field.NotSaid
	Keep    = field.Keep
	Replace = field.Replace
	Fail    = field.Fail
	Follow  = field.Follow

	NoOnExpire   = field.NoOnExpire
	ExpireDelete = field.ExpireDelete
	ExpirePark   = field.ExpirePark

	NoGroupOrder = field.NoGroupOrder
	Fair         = field.Fair
	Strict       = field.Strict

	NoJitter        = field.NoJitter
	JitterOfDoubled = field.JitterOfDoubled
	NoLifetime      = field.NoLifetime
)

// JitterOf returns a Jitter of that many per cent.
func JitterOf(percent uint8) Jitter { return field.JitterOf(percent) }

// LifetimeOf returns a Lifetime of that time.
func LifetimeOf(d time.Duration) Lifetime { return field.LifetimeOf(d) }

// RatePeriods are the periods of Rates.
var RatePeriods = field.RatePeriods
