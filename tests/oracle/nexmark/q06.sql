select
    id,
    seller,
    avg(final) over (partition by seller order by bid_time, id rows between 10 preceding and current row) as avg
from (
    select
        a.id, a.seller, b.price as final, b.date_time as bid_time,
        row_number() over (partition by a.id order by b.price desc, b.date_time, b.id) as place
    from auction a
    join bid b on a.id = b.auction and b.date_time between a.date_time and a.expires
) q
where place <= 1
