select
    auction,
    bidder,
    price,
    channel,
    case
        when lower(channel) = 'apple' then '0'
        when lower(channel) = 'google' then '1'
        when lower(channel) = 'facebook' then '2'
        when lower(channel) = 'baidu' then '3'
        else (regexp_match(url, '(&|^)channel_id=([^&]*)'))[2]
    end as channel_id
from bid
where
    (regexp_match(url, '(&|^)channel_id=([^&]*)'))[2] is not null
    or lower(channel) in ('apple', 'google', 'facebook', 'baidu')
