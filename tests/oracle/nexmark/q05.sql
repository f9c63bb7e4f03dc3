with bids as (
    select auction, window_start, count(*) as num
    from hop(bid, date_time, interval '2' second, interval '10' second)
    group by auction, window_start
)
select b.auction, b.num, b.window_start
from bids b
join (
    select window_start, max(num) as most
    from bids
    group by window_start
) m on b.window_start = m.window_start and b.num >= m.most
