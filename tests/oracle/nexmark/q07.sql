select b.auction, b.price, b.bidder, b.date_time
from bid b
join (
    select max(price) as best, window_start, window_end
    from tumble(bid, date_time, interval '10' second)
    group by window_start, window_end
) w on b.price = w.best
where b.date_time >= w.window_start and b.date_time < w.window_end
